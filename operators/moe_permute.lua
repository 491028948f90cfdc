--- Permutation of tokens to their experts: top_k copies of each token, in the order of the experts.
local launch = require "ett.operator.launch"
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "moe_permute", family = "router", gathers = true,
  summary = "copies of tokens in the order of their experts" }

-- slots, seq: places and tokens of a one-hot mask (shapes.mask). repeated: 1 if tokens are repeated before their copies
-- are gathered. looped: experts that gather their tokens one after the other. padded: 1 if the copies are gathered
-- again, with rows of zeros that fill up the experts' groups.
op.schema = { tokens = "count", hidden = "count", top_k = "count", slots = "count?", seq = "count?",
  repeated = "natural?", looped = "count?", padded = "natural?" }

function op.shape(c)
  local slots, seq = shapes.mask(c)
  return { tokens = shapes.routed_tokens(c), hidden = c.hidden, top_k = c.top_k, slots = slots, seq = seq,
    repeated = c.repeats_tokens and c.top_k > 1 and not slots and 1 or nil,
    looped = c.loops_experts and not slots and shapes.experts(c) or nil,
    padded = c.pads_copies and not slots and 1 or nil }
end

--- Forward only copies; backward sums the gradients of a token's copies.
function op.flops(s, pass) return pass == "backward" and (s.tokens + 0.0) * s.hidden * s.top_k or 0.0 end

-- The tokens and their copies, once each.
local function rows(s, dtype) return (s.tokens + 0.0) * s.hidden * width(dtype) * (1 + s.top_k) end

--- Forward reads each token once and writes its copies. Backward reads the copies' gradients and writes the tokens'.
function op.bytes(s, dtype) return rows(s, dtype) end

--- Repeated tokens, in the order of the tokens; backward needs no such kernel. In a loop over experts the gradient of
--- each expert's gather has the size of all tokens: it is filled with zeros and added to the sum of those before it
--- (PyTorch, index_backward: new_zeros and index_put; one write, two reads, one write). Padding copies all rows behind
--- a row of zeros, and gathers them by index: two reads, two writes. Its backward pass is such an index_backward.
function op.beside_bytes(s, pass)
  local four = 4 * width "bf16" * (s.tokens + 0.0) * s.hidden
  local padding = s.padded and four * s.top_k or 0.0
  local looping = s.looped and pass == "backward" and four * s.looped or 0.0
  return padding + looping + (s.repeated and pass == "forward" and rows(s, "bf16") or 0.0)
end

--- A one-hot mask. Copies are not stored: the experts' products store their own input.
function op.activation_bytes(s, dtype) return shapes.mask_bytes(s, dtype) end

--- The gradients of copies and tokens.
function op.working_bytes(s, dtype) return rows(s, dtype) end

op.cuda = [==[
// One block a copy: row `order` of the tokens goes to the copy's place.
extern "C" __global__ void permute_gather(const T *x, const long long *order, T *copies, long long cols) {
  const long long from = order[blockIdx.x] * cols, to = blockIdx.x * cols;
  each_column(j, cols) store(copies, to + j, load(x, from + j));
}

// One block a token: the sum of its copies' gradients.
extern "C" __global__ void permute_sum(const T *dcopies, const long long *place, T *dx, long long top_k,
                                       long long cols) {
  each_column(j, cols) {
    float sum = 0.0f;
    for (long long k = 0; k < top_k; k++) sum += load(dcopies, place[blockIdx.x * top_k + k] * cols + j);
    store(dx, blockIdx.x * cols + j, sum);
  }
}
]==]

op.doubles = {
  permute_gather = function(x, order, copies, cols)
    for i = 1, #copies do copies[i] = x[order[(i - 1) // cols + 1] * cols + (i - 1) % cols + 1] end
  end,
  permute_sum = function(dcopies, place, dx, top_k, cols)
    for i = 1, #dx do
      local token, j, sum = (i - 1) // cols, (i - 1) % cols + 1, 0.0
      for k = token * top_k + 1, (token + 1) * top_k do sum = sum + dcopies[place[k] * cols + j] end
      dx[i] = sum
    end
  end,
}

function op.kernel(k, s, pass)
  local copies = s.tokens * s.top_k
  local tokens, rows_of_experts = k.tensor { s.tokens, s.hidden }, k.tensor { copies, s.hidden }
  if pass == "forward" then
    local order = k.tensor { copies, fill = "index", high = s.tokens }
    return launch.rows(k, "permute_gather", op.cuda, copies, s.hidden, { tokens, order, rows_of_experts })
  end
  local place = k.tensor { copies, fill = "index", high = copies }
  launch.rows(k, "permute_sum", op.cuda, s.tokens, s.hidden, { rows_of_experts, place, tokens, s.top_k })
end

--- On the CPU: rows of a table are copied; backward adds to them.
function op.cpu(s) return { { kind = "embedding", rows = s.tokens * s.top_k, cols = s.hidden, vocab = s.tokens } } end

function op.recorded(s) return { what = "moe_permute", rows = s.tokens, cols = s.hidden } end

op.torch = [[
x = tensor(s.tokens, s.hidden)
token = torch.randperm(s.tokens * s.top_k, device=x.device) // s.top_k
return lambda: x.index_select(0, token)
]]

return op
