--- Fills masked scores with a large negative number, out of place.
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "fill_mask", aliases = { "fillmask" }, family = "elementwise",
  summary = "fill of the masked attention scores" }

op.schema = { batch = "count", heads = "count", seq_q = "count", seq_k = "count" }

function op.shape(c)
  return { batch = c.micro_batch, heads = shapes.local_heads(c),
    seq_q = shapes.divide("seq", c.seq, "cp", c.cp or 1), seq_k = c.seq }
end

function op.kernel_shape(s)
  return { rows = s.batch * s.heads * s.seq_q, cols = s.seq_k, seq_q = s.seq_q }
end

-- Forward copies the scores under the mask; backward clears the masked gradients.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 1 },
  backward = { reads = 1, writes = 1, flops = 1 },
  saved = 0,
})
op.reference = shapes.reference(op, { "mp", "b", "h", "l", "dim" }, { "fillmask" })

op.cuda = [[
// Row r belongs to query r % seq_q; keys after the query are masked.
static __device__ void masked_copy(const T *x, T *y, float fill, long long seq_q, long long cols, long long n) {
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n;
       i += (long long)gridDim.x * blockDim.x)
    store(y, i, i % cols > i / cols % seq_q ? fill : load(x, i));
}

extern "C" __global__ void write_mask(const T *x, T *y, long long seq_q, long long cols, long long n) {
  masked_copy(x, y, -10000.0f, seq_q, cols, n);
}

extern "C" __global__ void clear_mask(const T *dy, T *dx, long long seq_q, long long cols, long long n) {
  masked_copy(dy, dx, 0.0f, seq_q, cols, n);
}
]]

function op.kernel(k, s, pass)
  local rows = s.batch * s.heads * s.seq_q
  local x, y = k.tensor { rows, s.seq_k }, k.tensor { rows, s.seq_k }
  launch.elements(k, pass == "backward" and "clear_mask" or "write_mask", op.cuda, rows * s.seq_k,
    { x, y, s.seq_q, s.seq_k })
end

op.torch = [[
x = tensor(s.batch, s.heads, s.seq_q, s.seq_k)
mask = torch.ones(s.seq_q, s.seq_k, device=x.device, dtype=torch.bool).triu(1)
return lambda: x.masked_fill(mask, -10000.0)
]]

return op
