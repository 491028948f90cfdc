--- Operators over attention scores, [batch, heads, seq_q, seq_k]: softmax and masks.
--
--   scores.define(op, what, cost)  -- schema, shape, name in traces, and cost (ett.operator.memory)
--   scores.softmax(op, masked)     -- kernels: over all keys, or under a causal mask
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local function doubles() return require "ett.operator.doubles" end -- for tests of kernels alone

local scores = {}

--- Completes an operator: its shape, its name in traces (ett.trace.operators.kinds), and its cost per score.
function scores.define(op, what, cost)
  op.schema = { batch = "count", heads = "count", seq_q = "count", seq_k = "count" }
  function op.shape(c)
    local heads, _, rows = shapes.attention(c)
    return { batch = c.micro_batch, heads = heads, seq_q = rows, seq_k = c.seq }
  end
  function op.kernel_shape(s) return { rows = s.batch * s.heads * s.seq_q, cols = s.seq_k, seq_q = s.seq_q } end
  function op.recorded() return { what = what } end
  memory.define(op, cost)
end

--- `count` tensors of a run, with one row per query.
function scores.tensors(k, s, count)
  local rows, list = s.batch * s.heads * s.seq_q, {}
  for i = 1, count do list[i] = k.tensor { rows, s.seq_k } end
  return list
end

-- One thread block computes one row. NAME: name of the operator. SEEN: number of unmasked keys of the row.
local source = [[
extern "C" __global__ void NAME_forward(const T *x, T *y, ARGUMENTSlong long cols) {
  const long long row = blockIdx.x * cols;
  const long long seen = SEEN;
  float most = -3.4e38f, sum = 0.0f;
  each_column(j, seen) most = fmaxf(most, load(x, row + j));
  most = block_max(most);
  each_column(j, seen) sum += expf(load(x, row + j) - most);
  float inverse = 1.0f / block_sum(sum);
  each_column(j, cols)
    store(y, row + j, j < seen ? expf(load(x, row + j) - most) * inverse : 0.0f);
}

// dx = y (dy - sum(y dy))
extern "C" __global__ void NAME_backward(const T *y, const T *dy, T *dx, ARGUMENTSlong long cols) {
  const long long row = blockIdx.x * cols;
  const long long seen = SEEN;
  float sum = 0.0f;
  each_column(j, seen) sum += load(y, row + j) * load(dy, row + j);
  sum = block_sum(sum);
  each_column(j, cols)
    store(dx, row + j, j < seen ? load(y, row + j) * (load(dy, row + j) - sum) : 0.0f);
}
]]

--- The kernels of a softmax. masked: row r is query r % seq_q and attends to keys up to itself; all others become zero.
function scores.softmax(op, masked)
  local function seen_by(seq_q) return masked and function(row) return row % seq_q + 1 end or nil end
  op.doubles = {
    [op.name .. "_forward"] = function(x, y, ...)
      doubles().set(y, doubles().softmax(x, select(-1, ...), seen_by((...))))
    end,
    [op.name .. "_backward"] = function(y, dy, dx, ...)
      doubles().set(dx, doubles().softmax_backward(y, dy, select(-1, ...), seen_by((...))))
    end,
  }
  local text = { NAME = op.name, ARGUMENTS = masked and "long long seq_q, " or "",
    SEEN = masked and "blockIdx.x % seq_q + 1 < cols ? blockIdx.x % seq_q + 1 : cols" or "cols" }
  op.cuda = source:gsub("%u%u%u%u+", text)
  function op.kernel(k, s, pass)
    local args = scores.tensors(k, s, pass == "backward" and 3 or 2)
    if masked then args[#args + 1] = s.seq_q end
    launch.rows(k, op.name .. "_" .. pass, op.cuda, s.batch * s.heads * s.seq_q, s.seq_k, args)
  end
end

--- PyTorch code for the scores and their causal mask.
scores.torch_masked = [[
x = tensor(s.batch, s.heads, s.seq_q, s.seq_k)
mask = torch.ones(s.seq_q, s.seq_k, device=x.device, dtype=torch.bool).triu(1)
]]

return scores
