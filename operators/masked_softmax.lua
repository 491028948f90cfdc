--- Fused scale, upper-triangular mask and softmax (Megatron's kernel): masked keys are not read.
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "masked_softmax", aliases = { "ScaledUpperTriangMaskedSoftmax" }, family = "softmax",
  summary = "fused scale, causal mask and softmax" }

op.schema = { batch = "count", heads = "count", seq_q = "count", seq_k = "count" }

function op.shape(c)
  return { batch = c.micro_batch, heads = shapes.local_heads(c),
    seq_q = shapes.divide("seq", c.seq, "cp", c.cp or 1), seq_k = c.seq }
end

function op.kernel_shape(s)
  return { rows = s.batch * s.heads * s.seq_q, cols = s.seq_k, seq_q = s.seq_q }
end

-- Half of the keys are masked: read half, write all.
memory.define(op, {
  forward = { reads = 0.5, writes = 1, flops = 3.5 },
  backward = { reads = 1, writes = 1, flops = 2.5 },
  saved = 1,
})
op.reference = shapes.reference(op, { "mp", "b", "h", "l" }, { "ScaledUpperTriangMaskedSoftmax" })

op.cuda = [[
// Row r is query r % seq_q and sees the keys up to its own; the rest is written as zero.
extern "C" __global__ void masked_softmax_forward(const T *x, T *y, long long seq_q, long long cols) {
  const long long row = blockIdx.x * cols;
  const long long seen = blockIdx.x % seq_q + 1 < cols ? blockIdx.x % seq_q + 1 : cols;
  float most = -3.4e38f, sum = 0.0f;
  for (long long j = threadIdx.x; j < seen; j += blockDim.x) most = fmaxf(most, load(x, row + j));
  most = block_max(most);
  for (long long j = threadIdx.x; j < seen; j += blockDim.x) sum += expf(load(x, row + j) - most);
  float inverse = 1.0f / block_sum(sum);
  for (long long j = threadIdx.x; j < cols; j += blockDim.x)
    store(y, row + j, j < seen ? expf(load(x, row + j) - most) * inverse : 0.0f);
}

// dx = y (dy - sum(y dy))
extern "C" __global__ void masked_softmax_backward(const T *y, const T *dy, T *dx, long long seq_q, long long cols) {
  const long long row = blockIdx.x * cols;
  const long long seen = blockIdx.x % seq_q + 1 < cols ? blockIdx.x % seq_q + 1 : cols;
  float sum = 0.0f;
  for (long long j = threadIdx.x; j < seen; j += blockDim.x) sum += load(y, row + j) * load(dy, row + j);
  sum = block_sum(sum);
  for (long long j = threadIdx.x; j < cols; j += blockDim.x)
    store(dx, row + j, j < seen ? load(y, row + j) * (load(dy, row + j) - sum) : 0.0f);
}
]]

function op.kernel(k, s, pass)
  local rows, args = s.batch * s.heads * s.seq_q, {}
  for i = 1, pass == "backward" and 3 or 2 do args[i] = k.tensor { rows, s.seq_k } end
  args[#args + 1] = s.seq_q
  launch.rows(k, "masked_softmax_" .. pass, op.cuda, rows, s.seq_k, args)
end

op.torch = [[
x = tensor(s.batch, s.heads, s.seq_q, s.seq_k)
mask = torch.ones(s.seq_q, s.seq_k, device=x.device, dtype=torch.bool).triu(1)
return lambda: F.softmax(x.masked_fill(mask, -10000.0), -1)
]]

return op
