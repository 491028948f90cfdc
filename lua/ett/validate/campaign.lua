--- The campaigns of `ett validate`: random designs over the range of shapes of its models, without the shapes of the
--- configurations. They record medians, because a step runs each operator once.
local error_module = require "ett.base.error"
local folders = require "ett.base.folder"
local json = require "ett.json"
local profile_fit = require "ett.profile.fit"
local schema = require "ett.base.schema"

local validate_campaign = {}

local function log(from, to, multiple) return { from = from, to = to, scale = "log", multiple = multiple or 1 } end
local function below(most, count) return function(s) return count(s) <= most end end
local function product(s) return 2.0 * s.tokens * s.in_features * s.out_features end
local function elements(s) return s.tokens * s.hidden end

--- Number of allowed shapes in the ranges and lists of a design's dimensions, counted up to `most`.
local function possible(shapes, where, most)
  local names, shape = schema.keys(shapes), {}
  local function count_from(i)
    local name, n = names[i], 0
    if not name then return (not where or where(shape)) and 1 or 0 end
    local axis = shapes[name]
    for at = 1, axis.from and (axis.to - axis.from) // axis.multiple + 1 or #axis do
      shape[name] = axis.from and axis.from + (at - 1) * axis.multiple or axis[at]
      n = n + count_from(i + 1)
      if n >= most then return n end
    end
    return n
  end
  return count_from(1)
end

--- A design of `count` shapes of an operator, or of all shapes if there are fewer.
---@param where function? which shapes are allowed
local function design(operator, count, shapes, where)
  count = math.min(count, possible(shapes, where, count))
  local one = { operator = operator, design = "halton", count = count, shapes = shapes, where = where }
  if operator == "rope" then
    shapes.kv_heads, shapes.rotary_dim = 1, 1
    one.with = function(s) s.kv_heads, s.rotary_dim = s.heads, s.head_dim end
  elseif operator == "flash_attention" then
    shapes.kv_heads, shapes.seq_k, shapes.causal = 1, 1, 1
    one.with = function(s) s.kv_heads, s.seq_k = s.heads, s.seq_q end
  end
  return one
end

--- A function that scales numbers of shapes. A table with fewer shapes than a model needs would predict nothing.
function validate_campaign.scaled(scale)
  return function(count) return math.max(profile_fit.least_shapes, math.floor(count * scale + 0.5)) end
end
local scaled = validate_campaign.scaled

--- The campaign on CPUs.
---@param scale number factor of the number of shapes; below 1 also of the number and the time of visits
---@param cold_bytes integer bytes through which the operands rotate
function validate_campaign.cpu(scale, cold_bytes)
  local n, tokens = scaled(scale), log(64, 512, 16)
  local rows = { tokens = tokens, hidden = log(32, 512, 16) }
  local batch, dims = { 1, 2, 4 }, { 16, 32, 64 }
  local function short(s) return s.batch * (s.seq or s.seq_q) <= 1024 end
  local list = {
    design("linear_qkv", n(160), { tokens = tokens, in_features = log(32, 2048, 16),
      out_features = log(48, 2048, 16) }, below(5e8, product)),
    design("layer_norm", n(32), rows),
    design("residual_add", n(32), rows),
    design("gelu", n(32), { tokens = tokens, width = log(128, 2048, 16) }),
    design("rope", n(40), { batch = batch, seq = log(64, 256, 16), heads = { 1, 2, 4, 8 }, head_dim = dims }, short),
    design("flash_attention", n(60), { batch = batch, heads = { 1, 2, 4, 6, 8 }, seq_q = log(48, 256, 16),
      head_dim = dims }, short),
    design("embedding", n(32), { tokens = tokens, vocab = log(128, 2048, 64), hidden = log(32, 512, 16) }),
    design("cross_entropy", n(32), { tokens = tokens, vocab = log(128, 2048, 64) }),
    design("optimizer", n(24), { params = log(40000, 12000000) }),
  }
  local visits = math.max(2, math.floor(5 * math.min(1, scale) + 0.5))
  local seconds = 0.006 * math.max(0.1, math.min(1, scale)) -- of a visit
  return { name = "validate", seed = 11, budget_seconds = seconds * visits, target = 1e-9, samples = list,
    visits = visits, block = 256, interleave = true, statistic = "median", together = true, cold_bytes = cold_bytes }
end

--- Ranges over the configurations: range(multiple, of) returns the axis from the minimum of of(configuration), which
--- may return several values, to 1.25 times the maximum.
local function ranges(sizes)
  return function(multiple, of)
    local least, most = math.huge, 0
    for _, c in ipairs(sizes) do
      for _, value in ipairs { of { layers = c[1], hidden = c[2], heads = c[3], vocab = c[4], batch = c[5], seq = c[7],
        tokens = c[5] * c[7] } } do
        least, most = math.min(least, value), math.max(most, value)
      end
    end
    local function round(value) return math.max(1, math.floor(value / multiple + 0.5)) * multiple | 0 end
    return log(round(least / 1.25), round(most * 1.25), multiple), 1.25 * most
  end
end

--- Distinct values of of(configuration), sorted.
local function values(sizes, of)
  local list, seen = {}, {}
  for _, c in ipairs(sizes) do
    local value = of(c)
    if not seen[value] then list[#list + 1] = value end
    seen[value] = true
  end
  table.sort(list)
  return list
end

--- The campaign on a GPU, over the ranges of the configurations to train.
---@param sizes integer[][] as in ett.validate
---@param scale number factor of the number of shapes
function validate_campaign.cuda(sizes, scale, precision)
  local n, range = scaled(scale), ranges(sizes)
  local function most(of) return select(2, range(1, of)) end
  local tokens, most_tokens = range(16, function(c) return c.tokens end)
  local hidden = range(16, function(c) return c.hidden end)
  local vocab = range(16, function(c) return c.vocab end)
  local most_elements = most(function(c) return c.tokens * c.hidden end)
  -- Adding a layer's gradients is timed as a residual addition of `times` its parameters (ett.validate.cuda).
  local times = precision == "fp32" and 1 or 5 / 3
  local added = range(16, function(c) return c.tokens, 12 * times * c.hidden, times * c.vocab end)
  local function fits(s)
    local count = s.batch * (s.seq or s.seq_q)
    return count <= most_tokens and count * s.heads * s.head_dim <= most_elements
  end
  local batch, heads = values(sizes, function(c) return c[5] end), values(sizes, function(c) return c[3] end)
  local dims, seq = values(sizes, function(c) return c[2] // c[3] end), range(16, function(c) return c.seq end)
  local list = {
    design("linear_qkv", n(160), { tokens = tokens,
      in_features = range(16, function(c) return c.hidden, 4 * c.hidden end),
      out_features = range(16, function(c) return c.hidden, 4 * c.hidden, c.vocab end) }, below(most(function(c)
        return 8.0 * c.tokens * c.hidden * c.hidden, 2.0 * c.tokens * c.hidden * c.vocab
      end), product)),
    design("layer_norm", n(40), { tokens = tokens, hidden = hidden }, below(most_elements, elements)),
    design("residual_add", n(40), { tokens = added, hidden = hidden }, below(most(function(c)
      return c.tokens * c.hidden, 12 * times * c.hidden * c.hidden, times * c.vocab * c.hidden
    end), elements)),
    design("gelu", n(40), { tokens = tokens, width = range(16, function(c) return 4 * c.hidden end) },
      below(4 * most_elements, function(s) return s.tokens * s.width end)),
    design("embedding", n(40), { tokens = tokens, vocab = vocab, hidden = hidden }),
    design("cross_entropy", n(40), { tokens = tokens, vocab = vocab },
      below(most(function(c) return c.tokens * c.vocab end), function(s) return s.tokens * s.vocab end)),
    design("optimizer", n(32), { params = range(1, function(c)
      return (12 * c.layers * c.hidden + 2 * c.vocab) * c.hidden
    end) }),
    design("rope", n(48), { batch = batch, seq = seq, heads = heads, head_dim = dims }, fits),
    design("flash_attention", n(80), { batch = batch, heads = heads, seq_q = seq, head_dim = dims }, fits),
  }
  return { name = "validate", backend = "cuda", precision = precision, seed = 11, budget_seconds = 0.02,
    samples = list, statistic = "median" }
end

--- Writes a campaign file. Ranks load it; its hash decides whether existing tables belong to it.
---@param back_end string "cpu" or "cuda"
---@param ... any arguments of the campaign of that name
---@return string path
function validate_campaign.write(path, back_end, ...)
  return folders.write(path, ("local given = require(\"ett.json\").decode [=[%s]=]\n"
    .. "return require(\"ett.validate.campaign\").%s(table.unpack(given))\n"):format(json.encode { ... }, back_end))
end

--- Measures a campaign file in this process or on this rank. Raises if an operator computes a wrong result, or if no
--- shape of an operator could be measured.
---@param where string the device, for messages
---@param precision string
---@param options table of ett.sampler
function validate_campaign.run(path, where, precision, options)
  options.changed_advice = "give --out for a new folder"
  local reports = require("ett.sampling.sampler").run(require("ett.sampling.campaign").load(path), options)
  if options.share and options.share.rank() > 0 then return end -- rank 0 holds the tables
  for _, report in ipairs(reports) do
    if report.refused then error_module.raise("model", "%s: %s", where, report.refused) end
    if report.measured + report.held == 0 then
      error_module.raise("missing", "%s: no shape of %s could be measured in %s: %s", where, report.name, precision,
        report.last_failure or "none was tried")
    end
  end
end

return validate_campaign
