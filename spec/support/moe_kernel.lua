--- The fused expert layer of one rank, forward: grouped products of gated or plain experts.
--
-- The analytic time follows from the tokens of each local expert: the weights of experts with tokens, the rows padded
-- to whole tiles, and the activations. Routing is balanced or follows a power law, for which the time is that of the
-- busiest rank.
local regress = require "ett.regress"

local moe = { name = "moe", summary = "fused layer of experts, forward", table = "moe_forward.csv",
  inputs = { "tokens", "hidden", "ffn", "top_k", "experts", "tp", "ep" },
  texts = { "framework", "dtype", "routing", "kernel" },
  frameworks = { "trtllm", "sglang", "vllm" },
  rounds = { default = 80 } }

local ceil, log, max, min = math.ceil, math.log, math.max, math.min
local element_bytes = require("ett.base.schema").dtype_bytes

-- (hidden, ffn) of ungated experts with two matrices (Nemotron). All other experts are gated and have three.
local plain = { ["2688 1856"] = true, ["4096 2688"] = true, ["1024 2688"] = true, ["8192 5120"] = true,
  ["5120 5120"] = true }

local function new_load() return { copies = 0.0, used = 0.0, tiles_64 = 0.0, tiles_128 = 0.0, most = 0.0 } end

local function add_expert(load, count)
  load.copies, load.used, load.most = load.copies + count, load.used + 1, max(load.most, count)
  load.tiles_64, load.tiles_128 = load.tiles_64 + ceil(count / 64), load.tiles_128 + ceil(count / 128)
end

-- One sample of a power law: the tokens of each expert, and the index of the busiest rank's first expert.
-- aiconfigurator draws a weight per expert from x^-alpha and measures the rank with the largest sum. The range of x was
-- written from memory of its collector, not verified: 1 to 0.8 of the tokens; 0.01 to 2 with fewer copies than experts.
local function drawn(x, alpha, own, state)
  local power, experts, wanted = 1 - alpha, x.experts, x.tokens * x.top_k
  local least, most = 1.0, 0.8 * x.tokens
  if wanted <= experts then least, most = 0.01, 2.0 end
  local counts, sum, busiest, first = {}, 0.0, -1.0, 1
  for i = 1, experts do
    state = regress.mix(state + 1)
    local u = (state >> 11) / 2.0 ^ 53
    counts[i] = (u * (most ^ power - least ^ power) + least ^ power) ^ (1 / power)
    sum = sum + counts[i]
  end
  for from = 1, experts - own + 1, own do
    local held = 0.0
    for i = from, from + own - 1 do held = held + counts[i] end
    if held > busiest then busiest, first = held, from end
  end
  for i = 1, experts do counts[i] = min(x.tokens, counts[i] / sum * wanted) // 1 + 0.0 end
  return counts, first, state
end

local draws = 8

local function skewed(x, alpha, own)
  local mean, state = new_load(), 12345
  for _ = 1, draws do
    local load = new_load()
    local counts, first, after = drawn(x, alpha, own, state)
    state = after
    for i = first, first + own - 1 do if counts[i] > 0 then add_expert(load, counts[i]) end end
    if load.used == 0 then add_expert(load, 1) end
    for name, value in pairs(load) do mean[name] = mean[name] + value / draws end
  end
  return mean
end

local function balanced(x, own)
  local copies = max(1, x.tokens * x.top_k / x.ep)
  local used = min(own, copies)
  return { copies = copies, used = used, tiles_64 = used * ceil(copies / used / 64),
    tiles_128 = used * ceil(copies / used / 128), most = copies / used }
end

local known = {}

--- Load of the experts of the timed rank; with a power law, the busiest rank.
---@param x table { tokens (of the whole group), top_k, experts, ep, routing }
---@return table { copies (of tokens), used (experts with tokens), tiles_64, tiles_128 (of rows), most (of one expert) }
function moe.load(x)
  local id = ("%d %d %d %d %s"):format(x.tokens, x.top_k, x.experts, x.ep, x.routing)
  if not known[id] then
    local own, alpha = max(1, x.experts // x.ep), tonumber(x.routing:match "^power_law_([%d.]+)$")
    known[id] = alpha and skewed(x, alpha, math.tointeger(own)) or balanced(x, own)
  end
  return known[id]
end

--- Analytic seconds, and the features of the trees.
---@param device ett.Device
---@param dtype string
---@param x table { tokens (of the whole group), hidden, ffn, top_k, experts, tp, ep, routing, kernel }
---@return number seconds, number[] features
function moe.analyse(device, dtype, x)
  local two = plain[("%d %d"):format(x.hidden, x.ffn)] or x.kernel:find("nongated", 1, true)
  local matrices, own, width, load = two and 2 or 3, max(1, x.experts / x.ep), x.ffn / x.tp, moe.load(x)
  local copies, used = load.copies, load.used
  local expert = matrices * x.hidden * width
  local arithmetic = 2.0 * 64 * load.tiles_64 * expert / device:peak(dtype)
  local weights = used * expert * element_bytes[dtype]
  local rest = copies * (x.hidden * 6.0 + width * matrices * 2.0) + x.tokens * x.hidden * 4.0
  local memory = (weights + rest) / device.memory_bandwidth
  -- Assumed, corrected by the trees: shares of the peak rates, share of the shorter time that is not hidden, start.
  local seconds = max(arithmetic / 0.6, memory / 0.75) + 0.3 * min(arithmetic, memory) + 20e-6
  return seconds, { log(x.tokens), log(x.hidden), log(width), log(x.top_k), log(own), log(copies), log(copies / used),
    log(arithmetic / memory), log(weights / device.l2_bytes), log(rest), x.routing == "balanced" and 0 or 1, log(x.ep),
    log(128 * load.tiles_128 / copies), matrices, log(seconds), log(x.tp), log(load.most / copies * used),
    log(2 * copies * expert / (weights + rest)),
    log(load.tiles_128 * width * (matrices - 1) / 128 / device.multiprocessors), used / own,
    x.kernel:find("min_latency", 1, true) and 1 or 0 }
end

--- Rows of the same model are held out together.
function moe.group(x) return ("%d %d %d %d"):format(x.hidden, x.ffn, x.top_k, x.experts) end

local function middle(list)
  table.sort(list)
  return list[#list // 2 + 1]
end

local function configuration(x) return ("%s %g %g %s %s"):format(moe.group(x), x.tp, x.ep, x.routing, x.kernel) end

-- Drops single rows that are more than 25 % slower than the same configuration with more tokens. Fewer tokens take no
-- longer with a good kernel, so the tuner missed it for these rows.
local function monotone(rows)
  table.sort(rows, function(a, b) return a.tokens > b.tokens end)
  local least, kept = math.huge, {}
  for _, row in ipairs(rows) do
    if row.seconds <= 1.25 * least then kept[#kept + 1] = row end
    least = min(least, row.seconds)
  end
  return kept
end

-- Limits on the slowness of a configuration: twice the median of all, and 1.5 times the median of its model. The second
-- was chosen on splits of the fitted rows.
local slow, slow_of_model = log(2), log(1.5)

--- The rows to fit: without configurations and single rows for which the tuner found no good kernel. Such
--- configurations take up to eight times as long at every number of tokens, and no feature of their shape predicts it.
---@return table[] rows
function moe.sound(device, dtype, rows)
  local of, order, medians, models = {}, {}, {}, {}
  for _, row in ipairs(rows) do
    local id = configuration(row)
    if not of[id] then
      of[id] = {}
      order[#order + 1] = id
    end
    table.insert(of[id], row)
  end
  for i, id in ipairs(order) do
    local errors, model = {}, moe.group(of[id][1])
    for k, row in ipairs(of[id]) do errors[k] = log(row.seconds / (moe.analyse(device, dtype, row))) end
    medians[i] = middle(errors)
    models[model] = models[model] or {}
    table.insert(models[model], medians[i])
  end
  local kept, limit = {}, middle(table.move(medians, 1, #medians, 1, {})) + slow
  for model, list in pairs(models) do models[model] = middle(list) + slow_of_model end
  for i, id in ipairs(order) do
    if medians[i] < min(limit, models[moe.group(of[id][1])]) then
      table.move(monotone(of[id]), 1, #of[id], #kept + 1, kept)
    end
  end
  return kept
end

return moe
