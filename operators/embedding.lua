--- Vocabulary-parallel token embedding: each tensor rank looks up its own rows.
local launch = require "ett.operator.launch"
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "embedding", family = "embedding", owns_table = true,
  summary = "token embedding, vocabulary-parallel" }

-- vocab: rows on this rank. whole_vocab: rows on all ranks, from which tokens are drawn; default vocab. one_hot: 1 if
-- the table is multiplied with one-hot rows.
op.schema = { tokens = "count", vocab = "count", hidden = "count", whole_vocab = "count?", one_hot = "count?" }

function op.shape(c)
  return { tokens = shapes.tokens(c), vocab = shapes.local_vocab(c), hidden = c.hidden,
    whole_vocab = shapes.padded_vocab(c.vocab, 1, c.vocab_multiple), one_hot = c.one_hot_embedding and 1 or nil }
end

--- Forward has no arithmetic; backward adds the gradient of each token to its row. With one-hot rows, both are a
--- product.
function op.flops(s, pass)
  if s.one_hot then return 2.0 * s.tokens * s.vocab * s.hidden end
  return pass == "backward" and 1.0 * s.tokens * s.hidden or 0.0
end

--- Forward reads and writes one row per token. Backward clears the dense gradient of the table,
--- then reads, adds and writes one row per token.
function op.bytes(s, dtype, pass)
  local rows = width(dtype) * (s.tokens + 0.0) * s.hidden
  if pass == "backward" then return 3 * rows + width(dtype) * (s.vocab + 0.0) * s.hidden end
  return 2 * rows + 8.0 * s.tokens
end

function op.parameters(s) return s.vocab * s.hidden end
function op.activation_bytes(s) return 8.0 * s.tokens end
function op.working_bytes(s, dtype) return width(dtype) * (s.tokens + 0.0) * s.hidden end

function op.kernel_shape(s)
  return { rows = s.tokens, cols = s.hidden, vocab = s.vocab, whole_vocab = s.whole_vocab }
end

op.cuda = [[
extern "C" __global__ void embedding_forward(const long long *ids, const T *table, T *out, long long cols) {
  const long long from = ids[blockIdx.x] * cols, to = blockIdx.x * cols;
  each_column(j, cols) store(out, to + j, load(table, from + j));
}

extern "C" __global__ void embedding_clear(T *dtable, long long n) {
  each_element(i, n)
    store(dtable, i, 0.0f);
}

// 16-bit elements are added by compare-and-swap of the word that holds them.
static __device__ void add(T *p, long long i, float value) {
  if (sizeof(T) == 4) {
    atomicAdd((float *)p + i, value);
    return;
  }
  unsigned *word = (unsigned *)p + i / 2, seen = *word, old;
  do {
    old = seen;
    union { unsigned word; T half[2]; } pair;
    pair.word = old;
    store(pair.half, i % 2, load(pair.half, i % 2) + value);
    seen = atomicCAS(word, old, pair.word);
  } while (seen != old);
}

extern "C" __global__ void embedding_backward(const long long *ids, const T *dy, T *dtable, long long cols) {
  const long long to = ids[blockIdx.x] * cols, from = blockIdx.x * cols;
  each_column(j, cols) add(dtable, to + j, load(dy, from + j));
}
]]

op.doubles = {
  embedding_forward = function(ids, table, out, cols)
    for i = 1, #ids * cols do out[i] = table[ids[(i - 1) // cols + 1] * cols + (i - 1) % cols + 1] end
  end,
  embedding_clear = function(dtable)
    for i = 1, #dtable do dtable[i] = 0.0 end
  end,
  embedding_backward = function(ids, dy, dtable, cols)
    for i, v in ipairs(dy) do
      local at = ids[(i - 1) // cols + 1] * cols + (i - 1) % cols + 1
      dtable[at] = dtable[at] + v
    end
  end,
}

function op.kernel(k, s, pass)
  local ids = k.tensor { s.tokens, fill = "index", high = s.vocab }
  local table, rows = k.tensor { s.vocab, s.hidden }, k.tensor { s.tokens, s.hidden }
  if pass == "forward" then
    return launch.rows(k, "embedding_forward", op.cuda, s.tokens, s.hidden, { ids, table, rows })
  end
  launch.elements(k, "embedding_clear", op.cuda, s.vocab * s.hidden, { table })
  launch.rows(k, "embedding_backward", op.cuda, s.tokens, s.hidden, { ids, rows, table })
end

op.torch = [[
ids, table = index(s.tokens, high=s.vocab), tensor(s.vocab, s.hidden)
return lambda: F.embedding(ids, table)
]]

return op
