--- Attention in training: separate formulas ("laws") for forward and backward of cuDNN's fused kernels.
--
-- seconds = FLOPs / peak x (a + b / keys), where keys is the mean number of keys that a query attends to. Each data
-- type, pass and pair of head dimensions has its own a and b. a is the inverse of the utilisation at long sequences; b
-- is the fixed cost of a query.
local training = { name = "attention_training", summary = "fused attention, forward and backward separately",
  table = "attention_training.csv", texts = { "framework", "dtype", "pass" },
  inputs = { "batch", "seq_q", "seq_k", "heads", "head_dim", "value_dim", "causal", "window" } }

local max, min = math.max, math.min
local merged = require "ett.base.merged"
local launch_seconds = 4e-6 -- assumed; not part of the fit

--- Query-key pairs of one head and sequence. x.shards: context-parallel ranks, or nil.
local function pairs_of(x)
  local window = x.window > 0 and x.window < x.seq_k * (x.causal == 0 and 2 or 1) and x.window
  if window then return x.seq_q * (window - window * (x.causal == 0 and 0.25 or 0.5) * (window / x.seq_k)) end
  if x.causal == 0 then return x.seq_q * (x.seq_k + 0.0) end
  -- Each context-parallel rank holds one early and one late chunk of the sequence: half of all pairs.
  return x.seq_q * (x.shards and x.seq_k / 2.0 or x.seq_k - x.seq_q / 2.0)
end

--- FLOPs of a pass: two products forward, five backward.
function training.flops(x, pass)
  local dims = pass == "backward" and 3 * x.head_dim + 2 * x.value_dim or x.head_dim + x.value_dim
  return 2.0 * x.batch * x.heads * dims * pairs_of(x)
end

--- The key of a law, such as "bf16 backward 128 128".
function training.key(dtype, pass, x) return ("%s %s %d %d"):format(dtype, pass, x.head_dim, x.value_dim) end

-- Least squares of the relative error with two non-negative coefficients.
local function two_columns(rows)
  local aa, ab, bb, a, b = 0.0, 0.0, 0.0, 0.0, 0.0
  for _, row in ipairs(rows) do
    local u, v = row.u / row.seconds, row.v / row.seconds
    aa, ab, bb, a, b = aa + u * u, ab + u * v, bb + v * v, a + u, b + v
  end
  local determinant = aa * bb - ab * ab
  local first, second = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
  if determinant <= 1e-12 * aa * bb or second < 0 then return a / aa, 0.0 end
  if first < 0 then return 0.0, b / bb end
  return first, second
end

--- The rows that cuDNN measured, deterministic or not.
---@param all table[] of kernels.read
---@return table[]
function training.chosen(all)
  local rows, seen = {}, {}
  for _, row in ipairs(all) do
    -- GB300 has rows of both kinds of backward pass: keep the faster, which is the default of frameworks.
    local key = ("%s %d %d %d %d %d"):format(training.key(row.dtype, row.pass, row), row.batch, row.seq_q, row.heads,
      row.causal, row.window)
    row.small = row.window > 0 and row.window < 256 -- a few tiles
    -- fp8 kernels compute scores outside a small window too.
    if row.framework == "cudnn" and row.dtype ~= "mxfp8" and not (row.small and row.dtype ~= "bf16") then
      local at = seen[key] or #rows + 1
      if not rows[at] or row.seconds < rows[at].seconds then rows[at] = row end
      seen[key] = at
    end
  end
  return rows
end

-- The law with the nearest head dimensions, and its key.
local function nearest(laws, dtype, pass, x)
  local best, distance
  for key in pairs(laws) do
    local of_dtype, of_pass, head, value = key:match("^(%S+) (%S+) (%d+) (%d+)$")
    if of_dtype == dtype and of_pass == pass then
      local d = math.abs(math.log((head + value) / (x.head_dim + x.value_dim)))
      if not best or d < distance or d == distance and key < best then best, distance = key, d end
    end
  end
  return best and laws[best], best
end

-- b of a law with a given a: the median over the rows.
local function one_column(rows, a)
  local list = {}
  for i, row in ipairs(rows) do list[i] = math.max(0.0, row.seconds - a * row.u) / row.v end
  table.sort(list)
  return list[(#list + 1) // 2]
end

--- Fits every law that has rows. A head dimension with rows of small windows only takes a from the nearest law.
---@param device ett.Device
---@param rows table[] { dtype, pass, batch, heads, seq_q, seq_k, head_dim, value_dim, causal, window, seconds }
---@return table<string, number[]> key -> { a, b }
function training.fit(device, rows)
  local groups, windows, laws = {}, {}, {}
  for _, row in ipairs(rows) do
    local key = training.key(row.dtype, row.pass, row)
    local u = training.flops(row, row.pass) / device:peak(row.dtype)
    local into = row.small and windows or groups
    into[key] = into[key] or { row = row }
    table.insert(into[key], { u = u, v = u / (pairs_of(row) / row.seq_q), seconds = row.seconds })
  end
  for key, group in pairs(groups) do laws[key] = { two_columns(group) } end
  local more = {}
  for key, group in pairs(windows) do
    local law = not laws[key] and nearest(laws, group.row.dtype, group.row.pass, group.row)
    if law then more[key] = { law[1], one_column(group, law[1]) } end
  end
  return merged(laws, more)
end

--- Kernels of attention pad heads: on Hopper and Blackwell 72 values take as long as 80, or 5 % longer
--- (attention_bidirectional_forward).
function training.padded(dim) return (dim + 15) // 16 * 16 end

--- Position of a head dimension between 64 (0) and 128 (1), which every table has. Heads of 80 values reach 0.98 to
--- 1.07 times the rate of 64 (same tables); the laws at their position give 1.01 to 1.06.
function training.position(head_dim) return max(0.0, min(1.0, math.log(training.padded(head_dim) / 64, 2))) end

-- The law of head dimensions: the nearest, or between those of 64 and 128.
local function law_of(laws, dtype, pass, x)
  local law = nearest(laws, dtype, pass, x)
  local share = x.head_dim == x.value_dim and training.position(x.head_dim) or 0.0
  if share == 0 or share == 1 then return law end
  local low = laws[("%s %s 64 64"):format(dtype, pass)]
  local high = laws[("%s %s 128 128"):format(dtype, pass)]
  if not (low and high) then return law end
  return { low[1] + share * (high[1] - low[1]), low[2] + share * (high[2] - low[2]) }
end

--- Seconds of a pass, or nil without a law for the data type.
---@param device ett.Device
---@param laws table of training.fit
function training.seconds(device, laws, dtype, pass, x)
  local law = law_of(laws, dtype, pass, x)
  if not law then return nil end
  local keys = max(1, pairs_of(x) / x.seq_q)
  local unit = training.flops(x, pass) / device:peak(dtype)
  return unit * (law[1] + law[2] / keys) + launch_seconds
end

--- Mean relative error of laws over rows.
function training.error(device, laws, rows)
  local sum = 0.0
  for _, row in ipairs(rows) do
    sum = sum + math.abs(training.seconds(device, laws, row.dtype, row.pass, row) / row.seconds - 1)
  end
  return sum / #rows
end

return training
