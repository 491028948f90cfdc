--- Fills masked scores with a large negative number, out of place.
local launch = require "ett.operator.launch"
local scores = require "ett.operator.scores"

local op = { name = "fill_mask", family = "elementwise",
  summary = "fills masked attention scores with a large negative number", selective = true, compiled = "mask_fill" }

-- Forward copies the scores and overwrites masked ones; backward clears the gradients of masked scores.
scores.define(op, "fill_mask", {
  forward = { reads = 1, writes = 1, flops = 1 },
  backward = { reads = 1, writes = 1, flops = 1 },
  saved = 0,
})

op.cuda = [[
// Row r belongs to query r % seq_q; keys after the query are masked.
static __device__ void masked_copy(const T *x, T *y, float fill, long long seq_q, long long cols, long long n) {
  each_element(i, n)
    store(y, i, i % cols > i / cols % seq_q ? fill : load(x, i));
}

extern "C" __global__ void write_mask(const T *x, T *y, long long seq_q, long long cols, long long n) {
  masked_copy(x, y, -10000.0f, seq_q, cols, n);
}

extern "C" __global__ void clear_mask(const T *dy, T *dx, long long seq_q, long long cols, long long n) {
  masked_copy(dy, dx, 0.0f, seq_q, cols, n);
}
]]

local function masked(x, y, fill, seq_q, cols)
  for i, v in ipairs(x) do
    local row, column = (i - 1) // cols, (i - 1) % cols
    y[i] = column > row % seq_q and fill or v
  end
end
op.doubles = {
  write_mask = function(x, y, seq_q, cols) masked(x, y, -10000, seq_q, cols) end,
  clear_mask = function(dy, dx, seq_q, cols) masked(dy, dx, 0, seq_q, cols) end,
}

function op.kernel(k, s, pass)
  local args = scores.tensors(k, s, 2)
  table.move({ s.seq_q, s.seq_k }, 1, 2, 3, args)
  launch.elements(k, pass == "backward" and "clear_mask" or "write_mask", op.cuda,
    s.batch * s.heads * s.seq_q * s.seq_k, args)
end

op.torch = scores.torch_masked .. [[
return lambda: x.masked_fill(mask, -10000.0)
]]

return op
