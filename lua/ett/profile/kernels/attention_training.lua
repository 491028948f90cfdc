--- Attention in training: separate formulas ("laws") for forward and backward of cuDNN's fused kernels,
-- and of AITER's on AMD.
--
-- seconds = FLOPs / peak x (a + b / keys) for many blocks of queries. keys is the mean number of keys that a query
-- attends to. Each data type, pass and pair of head dimensions has its own a and b. a is the inverse of the utilisation
-- at long sequences; b is the fixed cost of a query. With few blocks, multiprocessors wait for the longest block. Its
-- time follows from its own number of keys. A third coefficient is the factor on the time of causal masks, where the
-- kernel hardly skips them.
local training = { name = "attention_training", summary = "fused attention, forward and backward separately",
  table = "attention_training.csv", texts = { "framework", "dtype", "pass" },
  inputs = { "batch", "seq_q", "seq_k", "heads", "head_dim", "value_dim", "causal", "window" } }

local max, min = math.max, math.min
local median = require "ett.base.median"
local merged = require "ett.base.merged"
local launch_seconds = 4e-6 -- assumed; not part of the fit

--- Query-key pairs of one head and sequence. x.shards: context-parallel ranks, or nil.
function training.pairs(x)
  local window = x.window > 0 and x.window < x.seq_k * (x.causal == 0 and 2 or 1) and x.window
  if window then return x.seq_q * (window - window * (x.causal == 0 and 0.25 or 0.5) * (window / x.seq_k)) end
  if x.causal == 0 then return x.seq_q * (x.seq_k + 0.0) end
  -- Each context-parallel rank holds one early and one late chunk of the sequence: half of all pairs.
  return x.seq_q * (x.shards and x.seq_k / 2.0 or x.seq_k - x.seq_q / 2.0)
end

local pairs_of = training.pairs

-- Rows of a block: queries forward, keys backward.
local block_rows = 128

-- The time that multiprocessors wait at the end of a kernel, as a share of the time of the longest block, by
-- generation. Fitted to causal forward passes of the fastest framework for each shape (attention_forward, without the
-- rows that `ett bench kernels` holds out): 0.7 on A100, 0 to 0.1 on H100 and H200, 0 to 0.2 on L40S, 0.2 to 0.7 on RTX
-- PRO 6000, 0 to 1.1 on B200, B300 and GB300. 0.5 on Blackwell is a compromise: the rows of cuDNN, the modelled kernel,
-- need 0 to 0.2 on GB300, but all of them have ten blocks or more for each multiprocessor. The values of other
-- generations are assumed.
local waiting = { ampere = 0.7, hopper = 0.0, ada = 0.2, blackwell = 0.5, other = 0.0 }

-- Keys that the longest block of queries attends to; backward, queries of the longest block of keys. And the work of
-- this block on every multiprocessor: query-key pairs, and queries.
local function longest_block(device, pass, x)
  local rows, others = x.seq_q, x.seq_k
  if pass == "backward" then rows, others = others, rows end
  local longest = x.window > 0 and min(x.window, others) or others
  local queries = (min(rows, block_rows) + 0.0) * device.multiprocessors
  return longest, queries * longest, queries
end

-- The fixed cost of a query in the longest block, divided by the mean fixed cost. This block is alone at the end, so no
-- other block runs while it starts and ends. It was chosen on passes without a mask, with heads of 64 and at most one
-- block for each multiprocessor, on H100 and H200 (attention_bidirectional_forward). Their estimates are 9 % above the
-- measured times with 2, and 21 % below with 1.
local alone_fixed = 2.0

-- The work of a pass, if multiprocessors wait at its end. all, last: of all blocks, and of the longest block on every
-- multiprocessor. A pass takes at least the time of its longest block.
local function with_waiting(device, all, last)
  return max(last, all + (waiting[device.generation] or waiting.other) * last)
end

--- FLOPs of a pass: two products forward, five backward.
function training.flops(x, pass)
  local dims = pass == "backward" and 3 * x.head_dim + 2 * x.value_dim or x.head_dim + x.value_dim
  return 2.0 * x.batch * x.heads * dims * pairs_of(x)
end

local function heads_of(dim) return { head_dim = dim, value_dim = dim } end

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

-- The frameworks whose kernels the laws describe: the newest of NVIDIA and of AMD.
local modelled = { cudnn = true, aiter = true }

--- The rows of the modelled kernels, deterministic or not.
---@param all table[] of kernels.read
---@return table[]
function training.chosen(all)
  local rows, seen = {}, {}
  for _, row in ipairs(all) do
    -- GB300 has rows of both kinds of backward pass: keep the faster, which is the default of frameworks.
    local key = ("%s %d %d %d %d %d"):format(training.key(row.dtype, row.pass, row), row.batch, row.seq_q, row.heads,
      row.causal, row.window)
    if modelled[row.framework] and row.dtype ~= "mxfp8" then
      if row.dtype == "fp8" and row.pass == "backward" then row.window = 0 end
      local at = seen[key] or #rows + 1
      if not rows[at] or row.seconds < rows[at].seconds then rows[at] = row end
      seen[key] = at
    end
  end
  return rows
end

-- The law with the nearest head dimensions, and its key. under: only laws whose mean dimension is below this, or nil.
local function nearest(laws, dtype, pass, x, under)
  local best, distance
  for key in pairs(laws) do
    local of_dtype, of_pass, head, value = key:match("^(%S+) (%S+) (%d+) (%d+)$")
    local allowed = not under or (head + value) / 2 < under
    if of_dtype == dtype and of_pass == pass and allowed then
      local d = math.abs(math.log((head + value) / (x.head_dim + x.value_dim)))
      if not best or d < distance or d == distance and key < best then best, distance = key, d end
    end
  end
  return best and laws[best], best
end

-- b of a law with a given a: the median over the rows.
local function one_column(rows, a)
  local list = {}
  for i, row in ipairs(rows) do list[i] = max(0.0, row.seconds - a * row.u) / row.v end
  return median(list)
end

-- Whether rows determine both a and b: their numbers of keys differ by a factor of two.
local function determines_both(rows)
  local least, most = math.huge, 0.0
  for _, row in ipairs(rows) do least, most = min(least, row.u / row.v), max(most, row.u / row.v) end
  return most >= 2 * least
end

-- Rows of every law, as columns.
local function grouped(device, rows)
  local groups = {}
  for _, row in ipairs(rows) do
    local key = training.key(row.dtype, row.pass, row)
    local all, heads = pairs_of(row), row.batch * row.heads
    local _, last, queries = longest_block(device, row.pass, row)
    local pair = training.flops(row, row.pass) / device:peak(row.dtype) / (all * heads)
    groups[key] = groups[key] or { row = row }
    table.insert(groups[key], { u = pair * with_waiting(device, all * heads, last),
      v = pair * with_waiting(device, heads * (row.seq_q + 0.0), alone_fixed * queries), seconds = row.seconds,
      masked = row.causal == 1 and row.window == 0, whole = row.causal == 0 })
  end
  return groups
end

-- The third coefficient of a law is the time of masked rows over their time by the law of unmasked rows. A law has it
-- only if it differs from 1 by at least this factor. cuDNN's fp8 backward pass on H200 hardly skips masked tiles; its
-- coefficient is 1.71. If every law had one, the errors of GB300's held-out rows would rise from 3.3 to 4.3 % backward
-- and from 3.8 to 4.5 % forward.
local odd_mask = 1.2

local function law_with_mask(rows)
  local whole, masked, ratios = {}, {}, {}
  for _, row in ipairs(rows) do
    if row.whole then whole[#whole + 1] = row end
    if row.masked then masked[#masked + 1] = row end
  end
  local a, b = two_columns(rows)
  if #masked == 0 or not determines_both(whole) then return { a, b } end
  local c, d = two_columns(whole)
  for i, row in ipairs(masked) do ratios[i] = row.seconds / (c * row.u + d * row.v) end
  local factor = median(ratios)
  if max(factor, 1 / factor) < odd_mask then return { a, b } end
  return { c, d, factor }
end

-- a of a law whose rows do not determine it, from the nearest law of the pass.
-- Forward: a of that law, multiplied by the ratio of the measured forward passes of both head dimensions. Backward: the
-- time of a pair grows by as many seconds as forward, because each pair has one exponential in both passes. As a test,
-- this a and the median of b fit H200's backward rows of 64 to 1 %.
local function asymptote(laws, row, forward)
  local near, key = nearest(laws, row.dtype, row.pass, row)
  local head, value = key:match " (%d+) (%d+)$"
  local other = { head_dim = tonumber(head), value_dim = tonumber(value) }
  if row.pass == "forward" then return near[1] * forward(row.dtype, row.head_dim, other.head_dim) end
  local own, there = nearest(laws, row.dtype, "forward", row), nearest(laws, row.dtype, "forward", other)
  if not (own and there) then return near[1] end
  local share = (row.head_dim + row.value_dim) / (3 * row.head_dim + 2 * row.value_dim)
  return near[1] + (own[1] - there[1]) * share
end

--- Fits every law that has rows. A law whose rows all have similar numbers of keys takes a from the nearest law.
---@param device ett.Device
---@param rows table[] { dtype, pass, batch, heads, seq_q, seq_k, head_dim, value_dim, causal, window, seconds }
---@param forward function(dtype, head_dim, other)? the ratio that training.relative returns
---@return table<string, number[]> key -> { a, b, masked }
function training.fit(device, rows, forward)
  local laws, left = {}, { forward = {}, backward = {} }
  for key, group in pairs(grouped(device, rows)) do
    if determines_both(group) then laws[key] = law_with_mask(group) else left[group.row.pass][key] = group end
  end
  for _, pass in ipairs { "forward", "backward" } do
    local more = {}
    for key, group in pairs(left[pass]) do
      if nearest(laws, group.row.dtype, pass, group.row) then
        local a = asymptote(laws, group.row, forward or function() return 1.0 end)
        more[key] = { a, one_column(group, a) }
      end
    end
    laws = merged(laws, more)
  end
  return laws
end

--- The median over shapes whose time follows from products: long sequences and few key-value heads.
---@param ratio function(x) of the inputs of ett.profile.kernels.attention
function training.at_length(head_dim, ratio)
  local list = {}
  for _, seq in ipairs { 8192, 16384 } do
    for _, kv_heads in ipairs { 1, 2, 4 } do
      list[#list + 1] = ratio { batch = 4, seq = seq, heads = 32, kv_heads = kv_heads, head_dim = head_dim,
        window = 0 }
    end
  end
  return median(list)
end

--- The time of a FLOP in long forward passes at one head dimension, divided by its time at another head dimension.
---@param kernel ett.Kernel of attention, or nil (1)
function training.relative(kernel, head_dim, other)
  return kernel and training.at_length(head_dim, function(x)
    return kernel:predict(x) / head_dim / (kernel:predict(merged(x, { head_dim = other })) / other)
  end) or 1.0
end

--- Kernels of attention pad heads: on Hopper and Blackwell, heads of 72 values take as long as heads of 80, or 5 %
--- longer (attention_bidirectional_forward).
function training.padded(dim) return (dim + 15) // 16 * 16 end

-- The factor of a causal mask on the time. The third coefficient of a law applies only to pairs of queries with keys of
-- the same tokens; the mask hides no earlier key.
local function masked_factor(law, x)
  if not law[3] or x.causal == 0 or x.window > 0 then return 1.0 end
  return 1 + (law[3] - 1) * x.seq_q * x.seq_q / 2 / pairs_of(x)
end

-- The next dimensions below and above `dim` (or equal to it) that have a law of equal heads.
local function between(laws, dtype, pass, dim)
  local below, above
  for key in pairs(laws) do
    local of_dtype, of_pass, head, value = key:match "^(%S+) (%S+) (%d+) (%d+)$"
    local own = of_dtype == dtype and of_pass == pass and head == value and tonumber(head)
    if own and own <= dim then below = max(own, below or own) end
    if own and own >= dim then above = min(own, above or own) end
  end
  return below, above
end

-- The time of a FLOP, divided by its time at the peak rate, from the nearest law. Heads between two laws, such as those
-- of 64 and 128 values, use the law of smaller heads, but take at most as long as the larger heads. Heads of 80 reach
-- 0.98 to 1.07 times the rate of heads of 64 (attention_bidirectional_forward). In bf16 a head takes at least as long
-- as smaller heads that have a law. Without this rule, GB300's law would make heads of 128 faster than heads of 64
-- below 4096 keys, where it has no causal forward rows of 128. fp8 lacks the rule, because its law of 64 is 12 % slower
-- than the measured row of 128 with 2048 keys.
local function by_law(laws, dtype, pass, x, keys)
  local dim, equal = training.padded(x.head_dim), x.head_dim == x.value_dim
  local below, above
  if equal then below, above = between(laws, dtype, pass, dim) end
  local law, key = nearest(laws, dtype, pass, equal and heads_of(dim) or x, below and below ~= above and above)
  if not law then return nil end
  local function value(of) return (of[1] + of[2] / keys) * masked_factor(of, x) end
  local function of_heads(head)
    local own = value(laws[training.key(dtype, pass, heads_of(head))])
    local smaller = dtype == "bf16" and between(laws, dtype, pass, head - 1)
    return smaller and max(own, of_heads(smaller) * smaller / head) or own
  end
  local head, value_dim = key:match "(%d+) (%d+)$"
  local alone = head == value_dim and of_heads(tonumber(head)) or value(law)
  if below and dtype == "bf16" then alone = max(alone, of_heads(below) * below / dim) end
  return below and above and min(alone, of_heads(above) * above / dim) or alone
end

--- Seconds of a pass, or nil without a law for the data type.
---@param device ett.Device
---@param laws table of training.fit
---@param filled boolean? another kernel runs at the end of this one, so no multiprocessor is idle
function training.seconds(device, laws, dtype, pass, x, filled)
  local all, heads = pairs_of(x), x.batch * x.heads
  local value = by_law(laws, dtype, pass, x, max(1, all / x.seq_q))
  if not value then return nil end
  local longest, last = longest_block(device, pass, x)
  local work = all * heads * value
  if not filled then work = with_waiting(device, work, last * by_law(laws, dtype, pass, x, longest / alone_fixed)) end
  local padding = (training.padded(x.head_dim) + training.padded(x.value_dim)) / (x.head_dim + x.value_dim)
  return training.flops(x, pass) / (all * heads) * padding / device:peak(dtype) * work + launch_seconds
end

--- Seconds of a context-parallel rank with one kernel for each of x.blocks blocks of keys. Under a causal mask, its own
--- block has half of all pairs. With balanced chunks (x.shards) the last rank needs half of the keys of another block,
--- for all its queries. The first rank needs all keys for half of its queries. Other ranks have both cases; the slower
--- counts. Without balanced chunks the last rank needs all pairs.
---@param filled boolean? the kernels alternate between two streams: only the last one leaves multiprocessors idle
function training.by_blocks(device, laws, dtype, pass, x, filled)
  local keys, others = x.seq_k // x.blocks, x.blocks - 1
  local function seconds(queries, some, causal, full)
    return training.seconds(device, laws, dtype, pass,
      merged(x, { seq_q = queries, seq_k = some, causal = causal, shards = false }), full)
  end
  local function rest(queries, some)
    local last = seconds(queries, some, 0)
    return filled and (others - 1) * seconds(queries, some, 0, true) + last or others * last
  end
  local own = seconds(x.seq_q, keys, x.causal, filled)
  if not own then return nil end
  if x.causal == 0 or not x.shards then return own + rest(x.seq_q, keys) end
  return own + max(rest(x.seq_q, keys // 2), rest(x.seq_q // 2, keys))
end

--- Laws times a factor.
---@param factor function(head_dim) by head dimension
---@param query number on the time that they add to each query, in addition
function training.scaled(laws, factor, query)
  local scaled = {}
  for key, law in pairs(laws) do
    local times = factor(tonumber(key:match "(%d+) %d+$"))
    scaled[key] = { law[1] * times, law[2] * times * query, law[3] }
  end
  return scaled
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
