--- The profile of a cluster: its own samples first, then another cluster's samples, then assumptions.
--
-- A cluster's `profile` says where operator times come from:
--   "profile"                    a folder of coefficient files or samples beside its init.lua
--   { base = "vista" }           another cluster's operators, scaled to this device
--   { folder =, borrow = NAME }  its own samples; missing operators come from another cluster, scaled
--   { folder =, borrow = "device" }  its own samples; missing operators come from the kernel tables of its device
-- Products and attention are scaled by the ratio of sustained rates of matrix products (device.measured_flops, else
-- peaks), all other operators by the ratio of memory bandwidths. The detail names the scaling; the answer is
-- "calibrated", with a wider interval.
--
-- Two corrections come from physics:
-- * A product never runs faster than the device's sustained rate on random data (device.measured_flops). Short runs on
--   constant operands draw less power and have higher clocks. They reach 97 to 99 % of the datasheet's peak; training
--   steps do not.
-- * A memory-bound operator without samples takes its bytes divided by the sampled bandwidth of residual_add, or its
--   FLOPs at the fp32 rate (ett.profile.assumed).
local assumed = require "ett.profile.assumed"
local cluster_module = require "ett.profile.cluster"
local collectives = require "ett.profile.network.collectives"
local device_module = require "ett.profile.device"
local detail = require "ett.profile.detail"
local dialect = require "ett.operator.dialect"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local in_step = require "ett.profile.in_step"
local merged = require "ett.base.merged"
local operator = require "ett.operator"
local profile = require "ett.profile"
local sampled = require "ett.profile.sampled"
local schema = require "ett.base.schema"
local stacks = require "ett.operator.stack"
local table_at = require "ett.base.table_at"

local cluster_profile = {}
local Profile = {}
Profile.__index = Profile

local products = operator.products
local assumed_scaled_spread = sampled.assumed_scaled_spread

local function rate(device, dtype)
  local measured = device.measured_flops and device.measured_flops[dtype]
  return measured or device_module.peak(device, dtype), measured ~= nil
end

--- Time on the device `to` over time on the device `from`, for products of a dtype or for memory-bound operators.
local function ratio(from, to, family, dtype)
  if not products[family] then return from.memory_bandwidth / to.memory_bandwidth end
  local a, a_measured = rate(from, dtype)
  local b, b_measured = rate(to, dtype)
  if not (a and b) then return nil end
  if a_measured ~= b_measured then a, b = device_module.peak(from, dtype), device_module.peak(to, dtype) end
  return a / b
end

local function missing(answer) return answer == nil or answer.provenance == "assumed" end

local unless_missing = error_module.unless_missing

--- The answer of a profile; nil if the profile has none.
local function ask(source, ...) return source and unless_missing(source.operator, source, ...) end

local function widened(answer, factor, spread, how)
  return { seconds = answer.seconds * factor,
    low_seconds = (answer.low_seconds or answer.seconds) * factor * (1 - spread),
    high_seconds = (answer.high_seconds or answer.seconds) * factor * (1 + spread),
    provenance = answer.provenance == "assumed" and "assumed" or "calibrated", scaled_from = answer.scaled_from,
    borrowed = answer.borrowed, limited = answer.limited, caution = answer.caution,
    detail = answer.detail and { "%s; %s", how, answer.detail } or how }
end

--- Bandwidth of a large residual addition, bytes/s.
function Profile:stream_bandwidth(dtype)
  local known = self.stream[dtype]
  if known then return known end
  local add = operator.get "residual_add"
  local shape = { tokens = 8192, hidden = 6144 }
  local answer = self:sampled(add, shape, dtype, "forward")
  known = not missing(answer) and add.bytes(shape, dtype, "forward") / answer.seconds
    or cluster_module.stream_bandwidth(self.cluster.device)
  self.stream[dtype] = known
  return known
end

-- Whether an operator runs in 16 bits although the data type has fewer: all but linear layers.
local function stays_in_16_bits(op, dtype) return schema.dtype_bytes[dtype] < 2 and op.family ~= "gemm" end

local function from_other(self, op, shape, dtype, pass)
  local other = self.other
  if not other or stays_in_16_bits(op, dtype) then return nil end
  local factor = ratio(other.cluster.device, self.cluster.device, op.family, dtype)
  local answer = factor and other:operator(op.name, shape, dtype, pass)
  if missing(answer) then return nil end
  if factor == 1 and other.cluster.device.name == self.cluster.device.name then
    answer.borrowed = answer.borrowed or other:tables_used() == "all"
    return answer
  end
  local name = other.cluster.name
  local scaled = widened(answer, factor, assumed_scaled_spread, { "%s's, scaled by %.3f", name, factor })
  scaled.scaled_from, scaled.borrowed = name, true
  return scaled
end

-- For a pass whose own samples are void (vista's backward attention): the ratio of both passes on the other cluster at
-- the same shape. The time of the other pass is multiplied by it. nil if that cluster lacks one of the passes.
local function ratio_of_other(self, op, dtype, pass)
  local other = self.other
  return other and function(shape)
    local a = other:operator(op.name, shape, dtype, sampled.other_pass(pass))
    local b = other:operator(op.name, shape, dtype, pass)
    if not missing(a) and not missing(b) then return b.seconds / a.seconds, other.cluster.name end
  end
end

-- Above the sampled vocabulary, the time of a lookup grows at least by the time of its additional bytes. The backward
-- pass clears the gradient of the whole table, and samples of one vocabulary hardly show this part.
local function with_table(self, op, shape, dtype, pass, answer)
  local known = merged(shape, { whole_vocab = answer.sampled_vocab,
    vocab = math.ceil(shape.vocab * answer.sampled_vocab / (shape.whole_vocab or shape.vocab)) })
  local more = (op.bytes(shape, dtype, pass) - op.bytes(known, dtype, pass)) / self:stream_bandwidth(dtype)
  local least = ask(self.own, op.name, known, dtype, pass).seconds + more
  if answer.seconds < least then
    answer.seconds, answer.high_seconds = least, answer.high_seconds + least - answer.seconds
  end
  return answer
end

-- Raises an error if a time is far below the limits of peak and memory bandwidth, because it is probably in the wrong
-- unit. Caches may be ten times as fast as memory. Outside the samples a regressor may be constant, while the work
-- grows at most fourfold with each doubling of the size (two dimensions; assumed). `outside` is the number of
-- doublings. Answers from accepted samples of another device get a wider interval and a note.
local function checked(self, op, shape, dtype, pass, answer)
  local device = self.cluster.device
  local peak = device_module.peak(device, dtype)
  local least = math.max(peak and products[op.family] and op.flops(shape, pass) / peak or 0,
    0.1 * op.bytes(shape, dtype, pass) / device.memory_bandwidth)
  if answer.seconds * 4 ^ math.max(0, answer.outside or 0) < 0.1 * least then
    error_module.raise("model", "the samples of %s (%s) give %.3g s, but the device '%s' needs at least %.3g s; "
      .. "times in sample tables must be in microseconds", op.name, pass, answer.seconds, device.name, least)
  end
  if not self.own.accepted then return answer end
  local accepted = widened(answer, 1, assumed_scaled_spread, ("samples of %s, accepted for %s"):format(
    self.own.accepted, device.name))
  accepted.borrowed = true
  return accepted
end

-- Timer over the cluster's own samples; nil if they do not hold the operator.
local function own_times(self, op, dtype, pass)
  local own = self.own
  if own and own.operator_timer then
    return unless_missing(own.operator_timer, own, op.name, dtype, pass, ratio_of_other(self, op, dtype, pass))
  end
  return own and function(shape) return ask(own, op.name, shape, dtype, pass) end
end

-- Times above both limits get a warning: nanoseconds are a thousand times too long.
local slow_ratio, slow_seconds = 300, 1e-3

-- A warning if a sampled time is far above the time that the device needs, because it is probably in the wrong unit;
-- else nil. Far from the samples a time may be constant (as in `checked`).
local function too_slow(self, op, shape, dtype, pass, answer)
  local seconds = answer.seconds
  local needed = unless_missing(assumed.operator, self.cluster, op, shape, dtype, pass)
  local least = needed and needed.seconds or math.huge
  if seconds < slow_ratio * least * 4 ^ math.max(0, answer.outside or 0) then return nil end
  return ("the samples of %s (%s) give %.3g s, %.0f times the %.3g s that the device '%s' needs; times in sample "
    .. "tables must be in microseconds"):format(op.name, pass, seconds, seconds / least, least,
    self.cluster.device.name)
end

-- The answer of the operators whose work a file of a dialect names for shapes without a field (ett.operator.dialect);
-- nil if they have none.
local function stood_in(self, stand_ins, shape, dtype, pass)
  for i = 1, #stand_ins do
    local one = stand_ins[i]
    if shape[one.lacks] == nil then
      local answer = self:sampled(operator.get(one.operator), one.shape(shape), dtype, pass)
      return not missing(answer) and answer or nil
    end
  end
end

-- Times of updates by PyTorch's foreach, from samples, which are those of one fused kernel: by the ratio of bytes.
local function by_foreach(fused, op, dtype, pass)
  return fused and function(shape, key)
    local answer, bytes = fused(shape, key), op.bytes(shape, dtype, pass)
    if missing(answer) then return answer end
    return widened(answer, (bytes + in_step.foreach_bytes * shape.params) / bytes, assumed_scaled_spread,
      "one fused kernel, by the ratio of bytes")
  end
end

-- Timer that uses the cluster's own samples, else the other cluster's samples; without a profile, the kernel tables of
-- the device. If the answer is within the limits of the device, the timer's second value is true, and the third the
-- FLOPs of a product.
local function sampled_timer(self, op, dtype, pass)
  local device_times, tables = self.device_times, self.tables
  if device_times then return function(shape) return device_times:operator(op.name, shape, dtype, pass) end end
  local own, stand_ins = own_times(self, op, dtype, pass), dialect.stand_ins(op.name)
  if self.foreach and op.family == "optimizer" then own = by_foreach(own, op, dtype, pass) end
  local device = self.cluster.device
  local peak, bandwidth = products[op.family] and device_module.peak(device, dtype), device.memory_bandwidth
  local bytes, flops_of, stands_in = op.bytes, op.flops, #stand_ins > 0
  local is_bounded = own and not (op.least_bytes or self.own.accepted)
  return function(shape, key)
    local answer = stands_in and stood_in(self, stand_ins, shape, dtype, pass)
    if answer then return answer end
    answer = own and own(shape, key)
    if not answer or answer.provenance == "assumed" then
      answer = from_other(self, op, shape, dtype, pass) or answer
      if missing(answer) and tables then
        answer = tables:operator(op.name, shape, dtype, pass) or answer
        if answer then answer.borrowed = true end
      end
      return answer
    end
    if answer.sampled_vocab then answer = with_table(self, op, shape, dtype, pass, answer) end
    local seconds, moved = answer.seconds, bytes(shape, dtype, pass) / bandwidth -- the device needs at least `moved`
    if seconds >= slow_seconds and seconds >= slow_ratio * moved then
      answer.caution = too_slow(self, op, shape, dtype, pass, answer) or answer.caution
    end
    if is_bounded and seconds >= moved then
      local flops = peak and flops_of(shape, pass)
      if not peak or seconds >= flops / peak then return answer, true, flops end
    end
    return checked(self, op, shape, dtype, pass, answer)
  end
end

-- The memoised result of `make` for an operator, data type and pass.
local function memoised_timer(list, make, self, op, dtype, pass)
  local by_dtype = table_at(list, op)
  local id = dtype .. " " .. pass
  local known = by_dtype[id]
  if not known then
    known = make(self, op, dtype, pass)
    by_dtype[id] = known
  end
  return known
end

function Profile:sampled(op, shape, dtype, pass)
  return memoised_timer(self.sampled_timers, sampled_timer, self, op, dtype, pass)(shape)
end

--- Lower bound on an operator's seconds on a device: its products at the peak rate, and its bytes beyond the cache size
--- at the memory bandwidth.
function cluster_profile.least_seconds(device, op, shape, dtype, pass)
  local peak = products[op.family] and device_module.peak(device, dtype)
  local bytes = (op.least_bytes or op.bytes)(shape, dtype, pass)
  return math.max(peak and op.flops(shape, pass) / peak or 0.0,
    bytes > 2 * (device.l2_bytes or 0) and bytes / device.memory_bandwidth or 0.0)
end

-- Assumed: the interval of a limited time reaches at least to the time multiplied by this factor.
local limited_high, sustained_high = 1.2, 1.05

-- Raises a time to that lower bound. Times that are extrapolated far outside their samples may be below it, and so may
-- the times of products that stand for an operator that was not measured.
local function raised_to_bound(self, op, shape, dtype, pass, answer)
  if not answer then return nil end
  local least = cluster_profile.least_seconds(self.cluster.device, op, shape, dtype, pass)
  if answer.seconds >= least then return answer end
  return { seconds = least, low_seconds = least,
    high_seconds = math.max(answer.high_seconds or least, limited_high * least),
    provenance = answer.provenance == "assumed" and "assumed" or "calibrated", scaled_from = answer.scaled_from,
    borrowed = answer.borrowed, limited = true, caution = answer.caution,
    detail = { "limited to the device's peak rates; %s", answer.detail or "" } }
end

-- Time for a data type of fewer than 16 bits without samples. A linear layer takes its 16-bit time, scaled by the ratio
-- of rates, but at least the time to move its operands. Other operators run in 16 bits.
local function from_sixteen_bits(self, op, shape, dtype, pass)
  if schema.dtype_bytes[dtype] >= 2 then return nil end
  local wide = self:sampled(op, shape, "bf16", pass) or self:sampled(op, shape, "fp16", pass)
  if stays_in_16_bits(op, dtype) then return wide and raised_to_bound(self, op, shape, "bf16", pass, wide) end
  local device = self.cluster.device
  local few, few_measured = rate(device, dtype)
  local sixteen, sixteen_measured = rate(device, "bf16")
  if few_measured ~= sixteen_measured then
    few, sixteen = device_module.peak(device, dtype), device_module.peak(device, "bf16")
  end
  if missing(wide) or not (few and sixteen) then return wide end
  local answer = widened(wide, sixteen / few, assumed_scaled_spread, "bf16 time by the ratio of rates")
  local floor = op.bytes(shape, dtype, pass) / self:stream_bandwidth "bf16"
  answer.seconds = math.max(answer.seconds, floor)
  answer.high_seconds = math.max(answer.high_seconds, answer.seconds)
  return answer
end

-- Limits products to the sustained rate `measured`. flops: the FLOPs of the shape, if known.
local function sustained(op, shape, pass, answer, measured, flops)
  local least = (flops or op.flops(shape, pass)) / measured
  if answer.seconds >= least then return answer end
  return { seconds = least, low_seconds = math.min(answer.low_seconds or least, least),
    high_seconds = math.max(answer.high_seconds or least, least * sustained_high), provenance = "calibrated",
    scaled_from = answer.scaled_from, borrowed = answer.borrowed, limited = answer.limited, caution = answer.caution,
    outside = answer.outside, detail = { "limited to the sustained %.1f TFLOP/s", measured / 1e12 } }
end

-- Sliding-window attention is not sampled. It takes the time of full attention, multiplied by the ratio of FLOPs,
-- because kernels skip whole blocks outside the window.
local function windowed(self, op, shape, dtype, pass)
  local whole = merged(shape)
  whole.window = nil
  local answer = self:operator(op.name, whole, dtype, pass)
  if missing(answer) then return nil end
  local factor = op.flops(shape, pass) / op.flops(whole, pass)
  return widened(answer, factor, assumed_scaled_spread,
    { "window of %d tokens: %.2f of attention to all", shape.window, factor })
end

local function timer(self, op, dtype, pass)
  local device = self.cluster.device
  local window = op.family == "attention" and not self.device_times
  local measured = (op.family == "gemm" or op.family == "bmm") and not self.device_times and device.measured_flops
    and device.measured_flops[dtype]
  local sampled_time = memoised_timer(self.sampled_timers, sampled_timer, self, op, dtype, pass)
  return function(shape, key)
    if window and shape.window then
      local answer = windowed(self, op, shape, dtype, pass)
      if answer then return answer end
    end
    local answer, sure, flops = sampled_time(shape, key)
    if sure then return measured and sustained(op, shape, pass, answer, measured, flops) or answer end
    answer = raised_to_bound(self, op, shape, dtype, pass, answer)
    if not answer or answer.provenance == "assumed" then
      answer = from_sixteen_bits(self, op, shape, dtype, pass) or answer
      if missing(answer) and not products[op.family] and not (answer and op.unmeasured) then
        local bandwidth = self:stream_bandwidth(schema.wide(dtype))
        answer = assumed.operator(self.cluster, op, shape, dtype, pass, bandwidth, self.foreach)
      end
    end
    return answer and measured and sustained(op, shape, pass, answer, measured) or answer
  end
end

--- Timer of an operator in one pass.
---@return function function(shape, ett.step.times.shape_key?): { seconds, low_seconds, high_seconds, provenance,
---  detail } of a run, or nil
function Profile:operator_timer(name, dtype, pass)
  return memoised_timer(self.timers, timer, self, operator.get(name), dtype, pass)
end

--- The data with which C times the updates of an optimizer as operator_timer does (ett_update_price without `hidden`);
--- nil if C cannot time them.
function Profile:updates_compiled(op, dtype)
  local own = self.own
  if self.device_times or self.foreach or not (own and own.operator_compiled) or own.accepted or op.least_bytes
    or op.proportional ~= "params" or #dialect.stand_ins(op.name) > 0 then return nil end
  local function bytes(params) return op.bytes({ params = params, layers = 1, hidden = 1 }, dtype, "update") end
  for _, params in ipairs { 3, 1000003, 70000000001 } do
    if bytes(params) ~= params * bytes(1) then return nil end
  end
  local model = unless_missing(own.operator_compiled, own, op.name, dtype, "update")
  return model and model:facts().family == "optimizer"
    and { model = model, bytes = bytes(1), bandwidth = self.cluster.device.memory_bandwidth } or nil
end

function Profile:operator(name, shape, dtype, pass)
  return detail.as_text(self:operator_timer(name, dtype, pass)(shape))
end

-- Timer of a collective with too few samples for a model: the samples scale the time over the cluster's links.
local function few_timer(self, kind, topology, dtype, links_seconds)
  local points = self.own and self.own.few_collectives and self.own:few_collectives(kind, topology, dtype)
  if not points then return nil end
  local scale = require "ett.profile.scale"
  for _, point in ipairs(points) do point.factor = point.seconds / links_seconds(point.dims[1]) end
  local noise = scale.noise(points)
  return function(bytes)
    local answer = scale.answer(points, { bytes }, { seconds = links_seconds(bytes), name = "the time of the links" },
      noise)
    if points.as then answer.detail = { "%s as %s, %s", kind, points.as, answer.detail } end
    return answer
  end
end

-- Limits times outside the samples, without a step at their ends. `at_end`: { seconds of the samples, seconds of the
-- links } at the smallest sample, or at the largest. Lower limit: half of the links' time. It is lower if the samples
-- at the end are faster than that: for smaller messages by the same ratio, for larger ones by the same number of
-- seconds, so that a ratio of latencies does not become a ratio of bandwidths. Upper limit, for smaller messages only,
-- where regressors are constant: the links' time, or more if the samples are slower. The interval ends at half of the
-- lower limit and at twice the slowest of these times.
local function within_links(by_links, at_end, answer)
  local over_links = at_end.seconds / at_end.links
  local slow = by_links * math.max(1.0, over_links)
  local least = answer.below and math.min(0.5, over_links) * by_links
    or math.min(0.5 * by_links, by_links - (1 - over_links) * at_end.links)
  local held = math.max(least, math.min(answer.seconds, answer.below and slow or math.huge))
  if held == answer.seconds then
    answer.low_seconds = math.max(answer.low_seconds, 0.5 * least)
    answer.high_seconds = math.min(answer.high_seconds, 2 * math.max(slow, held))
    return answer
  end
  return { seconds = held, low_seconds = 0.5 * held, high_seconds = 2 * held, provenance = "extrapolated",
    outside = answer.outside, detail = { "limited by the links' time; %s", answer.detail or "" } }
end

-- Bus bandwidths of very large messages inside a node, as the cluster's links state them. A curve without a kind is one
-- of all_reduce.
local function large_message_bandwidths(intra)
  local large = { rings = intra.ring_bandwidth, all_reduce = {} }
  for n, curve in pairs(intra.curves or {}) do
    if math.type(n) == "integer" then large.all_reduce[n] = curve[#curve] end
  end
  return large
end

-- Timer from links and kernel tables, for collectives without samples.
local function unsampled_timer(self, kind, topology, links)
  local intra, named = self.cluster.links.intra, self.cluster.collectives
  kind = require("ett.base.collective").kind(kind)
  if not intra or named and named[kind] then return links end
  local curves, tables = intra.curves and intra.curves[kind], topology.nodes == 1 and self.device_times
  if not (curves or tables) then return links end
  local bandwidth = tables and collectives.inside_node(self.cluster, kind, topology.gpus_per_node)
  local large = tables and large_message_bandwidths(intra)
  return function(bytes)
    local by_tables = tables and tables:collective(kind, bytes, topology.gpus_per_node, bandwidth, large)
    local by_links = (curves or not by_tables or by_tables.by_links) and links(bytes)
    if by_links and by_links.provenance == "calibrated" then return by_links end
    return by_tables or by_links
  end
end

-- Timer that uses the profile's own samples; nil and the reason if they are void; nil and nil if there are none. It
-- also returns the bytes of the smallest and of the largest sample, if known, and data for C
-- (Sampled:collective_timer). For sizes whose samples are void, the timer returns nil and a reason.
local function own_timer(self, kind, topology, dtype)
  local own = self.own
  if not (own and own.collective) then return nil, nil end
  if own.collective_timer then return unless_missing(own.collective_timer, own, kind, topology, dtype) end
  return function(bytes) return unless_missing(own.collective, own, kind, bytes, topology, dtype) end
end

--- Timer of a kind of collective in one group: from samples, checked against the links' times, else from the
--- cluster's links.
---@return function function(bytes of the whole buffer): an answer (ett.profile.detail)
---@return function|nil function(): the law of the links (ett.profile.cluster), if times follow one. If a regressor is
---  limited by that law: also its data for C (ett.profile.sampled)
function Profile:collective_timer(kind, topology, dtype)
  self.links = self.links or collectives.links(self.cluster)
  local links, links_seconds, law = cluster_module.collective_timer(self.cluster, kind, topology, self.links)
  local own, void, ends, compiled = own_timer(self, kind, topology, dtype)
  if void then own = function() return nil, void end end
  local rest
  local function find_rest()
    rest = rest or few_timer(self, kind, topology, dtype, links_seconds) or unsampled_timer(self, kind, topology, links)
    return rest
  end
  local function otherwise(bytes) return (rest or find_rest())(bytes) end
  if not own then
    return otherwise, function()
      if find_rest() == links then return law() end
    end
  end
  local at_ends = {} -- the smallest and the largest sample
  local function of_links(bytes, format, said)
    local answer = links(bytes)
    answer.detail = { format, said, answer.detail }
    return answer
  end
  return function(bytes)
    local answer, why = own(bytes)
    if not answer and why then return of_links(bytes, "samples are void, %s; %s", why) end
    if missing(answer) then return otherwise(bytes) end
    -- Samples much faster than the links are damaged. From 1 MB on, the fastest good sample takes 0.74 of the links'
    -- time (vista's all-gather over two nodes), and the damaged samples take 0.002.
    local by_links = links_seconds(bytes)
    if answer.seconds < 0.5 * by_links and (ends and math.min(bytes, ends[2]) or bytes) >= 1e6 then
      return of_links(bytes, "samples of %.3g s are faster than the links; %s", answer.seconds)
    end
    if answer.provenance ~= "extrapolated" or not ends then return answer end
    local k = answer.below and 1 or 2
    at_ends[k] = at_ends[k] or { seconds = own(ends[k]).seconds, links = links_seconds(ends[k]) }
    return within_links(by_links, at_ends[k], answer)
  end, compiled and function()
    return law() or nil, compiled
  end
end

function Profile:collective(kind, bytes, topology, dtype)
  return detail.as_text((self:collective_timer(kind, topology, dtype))(bytes))
end

-- Shares of a step with a width in in_step.step_spread, in a fixed order: reproducible digits.
local step_kinds = { "attention", "collectives", "experts" }

-- Whether steps of the software were compared on the device's generation. The width of a device without compared steps
-- covers that none was compared there.
local function is_known(device, compared)
  return compared[device.generation] or not in_step.step_spread[device.generation] and next(compared) ~= nil
end

-- Reasons for a wide interval, in words for people.
local function reasons_of(device, by_facts, advice, compared, is_recipe, stack)
  local list = {}
  if by_facts >= 0.005 then
    list[1] = ("%.0f %% of the operators' time follows from facts of %s alone: %s"):format(100 * by_facts, device.name,
      advice)
  end
  if by_facts < 1 and not in_step.step_spread[device.generation] then
    list[#list + 1] = ("the steps behind the interval have no device like %s; its own samples narrow the interval")
      :format(device.name)
  end
  if stack.name == "plain" then
    list[#list + 1] = "no software is named (stack=)"
  elseif not is_known(device, compared) then
    local on = table.concat(schema.keys(compared), " and ")
    list[#list + 1] = on == "" and ("a narrow interval was not tested for this software (stack %s)"):format(stack.name)
      or ("a narrow interval of stack %s was tested only on %s, not on %s"):format(stack.name, on, device.generation)
  elseif not is_recipe then
    list[#list + 1] = "recipe=true is not stated: runs that are not published recipes are often slower"
  end
  return list
end

--- What is added to a step's interval for times that are no samples of the cluster. First: a half-width, as a share of
--- the step. Second: one that counts only above it. Third: reasons for a wide interval, in words for people. Fourth:
--- whether `recipe` of the plan has an effect. Samples have no such error: they were measured on this machine, with the
--- kernels of the software that will run there.
---@param shares table of ett.step.spread
---@param p table plan { dtype, recipe }
---@param stack table
function Profile:step_spread(shares, p, stack)
  local by_tables, widths, device = self:tables_used() == "all", in_step.step_spread, self.cluster.device
  local borrowed = by_tables and 1.0 or shares.borrowed
  -- With tables, `assumed` also marks times of neighbours' tables, whose width is that of the device.
  local by_facts = by_tables and shares.by_rates or shares.assumed
  if borrowed == 0 then return 0.0, 0.0, {}, false end
  local compared = stacks.compared_on(stack)
  local known = is_known(device, compared)
  local kernels = (borrowed - by_facts) * (widths[device.generation] or widths.other) + by_facts * widths.facts
  local square = kernels ^ 2
  for _, kind in ipairs(step_kinds) do square = square + (borrowed * widths[kind] * shares[kind]) ^ 2 end
  if p.dtype == "nvfp4" or p.dtype == "mxfp4" then square = square + (borrowed * widths.nvfp4) ^ 2 end
  if not known then square = square + (borrowed * widths.uncompared) ^ 2 end
  local own_run = known and p.recipe and 0.0 or borrowed * in_step.own_run * math.sqrt(shares.memory)
  local advice = by_tables and "samples of these operators narrow the interval"
    or (self.own or self.other) and "sample these operators, or give profile = { borrow = 'device' }"
    or "give the device neighbours or samples"
  return math.sqrt(square), own_run, reasons_of(device, by_facts, advice, compared, p.recipe, stack), known
end

--- How many operator times come from kernel tables of this cluster, or of the cluster that it is based on: "all",
--- "some", or nil for none.
function Profile:tables_used()
  local of_other = self.other and self.other:tables_used()
  if self.device_times or not self.own and of_other == "all" then return "all" end
  return (self.tables or of_other) and "some" or nil
end

--- The same profile with the kernels of another stack.
---@param stack table of ett.operator.stack
function Profile:with_stack(stack)
  local own = self:with_tables(function(tables) return tables:with_stack(stack) end) or self
  if stack.update ~= "foreach" or self.device_times then return own end
  return setmetatable(merged(own, { foreach = true, other = self.other and self.other:with_stack(stack), timers = {},
    sampled_timers = {} }), Profile)
end

--- The same profile with the kernel tables of its device and of the clusters it borrows from replaced by
--- change(tables); nil if it uses no tables.
function Profile:with_tables(change)
  local other = self.other and self.other:with_tables(change)
  if not (self.device_times or self.tables or other) then return nil end
  return setmetatable(merged(self, { device_times = self.device_times and change(self.device_times),
    tables = self.tables and change(self.tables), other = other or self.other,
    stream = {}, timers = {}, sampled_timers = {} }), Profile)
end

--- The same profile with products at the rate of their tables; nil if its times come from samples.
function Profile:at_burst() return self:with_tables(function(tables) return tables:at_burst() end) end

-- The clusters `users` with one more; raises an error if it is one of them.
local function with_user(cluster, users)
  users = users or { names = {}, seen = {} }
  local id = cluster.path or cluster.name
  local file = cluster.path and require("lfs").attributes(id)
  local key = file and file.dev .. ":" .. file.ino or id
  users.names[#users.names + 1] = id
  if users.seen[key] then
    error_module.raise("model", "cluster %s: profile: base and borrow form a cycle: %s", cluster.name,
      table.concat(users.names, " -> "))
  end
  users.seen[key] = true
  return users
end

-- Whether a table of products exists: of the device, or of a neighbour. Their folders may have none.
local function has_products(device)
  local kernels, list = require "ett.profile.kernels", { device }
  for _, key in ipairs(device.neighbours or {}) do list[#list + 1] = device_module.get(key) end
  for _, own in ipairs(list) do
    for _, dtype in ipairs(own:dtypes()) do
      if kernels.own(own, "gemm", dtype) then return true end
    end
  end
  return false
end

--- Opens the profile of a cluster.
---@param cluster table from ett.cluster
---@param own table? a profile that replaces the one named in the cluster file
---@param users table? clusters whose base or borrow led to this one
function cluster_profile.open(cluster, own, users)
  require("ett.profile.network.parts").refuse(cluster, "a profile")
  local said = cluster.profile
  if type(said) == "string" then said = { folder = said } end
  said = said or {}
  if not own and said.folder then own = profile.open(cluster) end
  local by_device = said.borrow == "device" and not find.path("clusters", "device")
  local other = said.base or not by_device and said.borrow or nil
  users = other and with_user(cluster, users)
  if by_device and not device_module.has_tables(cluster.device) then
    error_module.raise("model", "cluster %s: profile: borrow = 'device', but device %s has no kernel tables",
      cluster.name,
      cluster.device.name)
  end
  local device = cluster.device
  local wanted = device_module.has_tables(device) and (by_device or not own and not cluster.profile
    and has_products(device))
  local device_times = wanted and require "ett.profile.device_times"
  -- A device with neither neighbours nor these facts has rooflines of its rates only.
  local tables = wanted and (by_device or device.neighbours or not device_times.lacking(device))
    and device_times.new(device) or nil
  return setmetatable({ cluster = cluster, own = own, stream = {}, timers = {}, sampled_timers = {},
    device_times = not by_device and tables or nil,
    tables = by_device and tables or nil,
    other = other and cluster_profile.open(error_module.wrap(("cluster %s: profile"):format(cluster.name),
      cluster_module.get, other, cluster.path), nil, users) or nil }, Profile)
end

return cluster_profile
