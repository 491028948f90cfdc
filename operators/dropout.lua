--- Dropout of attention probabilities or of a block's output, with a byte mask.
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "dropout", aliases = { "attention_dropout" }, family = "elementwise",
  summary = "dropout with a byte mask, over the attention probabilities", selective = true, compiled = "dropout" }

op.schema = { rows = "count", cols = "count" }

--- Attention probabilities: batch * heads * seq rows of seq columns.
function op.shape(c)
  local seq = shapes.divide("seq", c.seq, "cp", c.cp or 1)
  return { rows = c.micro_batch * shapes.local_heads(c) * seq, cols = c.seq }
end

function op.kernel_shape(s) return { rows = s.rows, cols = s.cols } end

-- The mask's random bits bind the forward pass: Philox 4x32-10 (Salmon et al. 2011) takes ten
-- rounds of two wide multiplications and four other operations for four values, about 25 integer
-- operations an element with indexing, 45 with scaling and comparison; integers issue at half the
-- fp32 rate (CUDA programming guide, table of throughputs), so that they count twice.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 90 },
  backward = { reads = 1, writes = 1, flops = 2 },
  extra = function(s) return s.rows * (s.cols + 0.0) end,
  saved = 1,
  saved_extra = function(s) return s.rows * (s.cols + 0.0) end,
})

op.cuda = [[
// A counter-based generator: element i always draws the same number.
static __device__ bool kept(long long i) {
  unsigned long long z = 0x9e3779b97f4a7c15ull * (unsigned long long)(i + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return (z >> 40) > 1677721; // 10 % are dropped
}
extern "C" __global__ void dropout_forward(const T *x, T *y, unsigned char *mask, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x) {
    bool keep = kept(i);
    mask[i] = keep;
    store(y, i, keep ? load(x, i) / 0.9f : 0.0f);
  }
}

extern "C" __global__ void dropout_backward(const T *dy, T *dx, const unsigned char *mask, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x)
    store(dx, i, mask[i] ? load(dy, i) / 0.9f : 0.0f);
}
]]

-- splitmix64, as the kernel counts it: integers wrap alike.
local function kept(i)
  local z = 0x9e3779b97f4a7c15 * i
  z = (z ~ (z >> 30)) * 0xbf58476d1ce4e5b9
  z = (z ~ (z >> 27)) * 0x94d049bb133111eb
  return z >> 40 > 1677721
end

-- What each kernel computes, in double precision, with its arguments as lists.
op.doubles = {
  dropout_forward = function(x, y, mask)
    for i, v in ipairs(x) do
      mask[i] = kept(i) and 1 or 0
      y[i] = mask[i] * v / 0.9
    end
  end,
  dropout_backward = function(dy, dx, mask)
    for i, v in ipairs(dy) do dx[i] = mask[i] ~= 0 and v / 0.9 or 0.0 end
  end,
}

function op.kernel(k, s, pass)
  local mask = k.tensor { s.rows, s.cols, dtype = "fp8", fill = "zero" } -- bytes
  local x, y = k.tensor { s.rows, s.cols }, k.tensor { s.rows, s.cols }
  launch.elements(k, "dropout_" .. pass, op.cuda, s.rows * s.cols, { x, y, mask })
end

op.torch = [[
x = tensor(s.rows, s.cols)
return lambda: F.dropout(x, 0.1)
]]

return op
