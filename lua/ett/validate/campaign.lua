--- The campaigns of `ett validate`: random designs over the range of shapes that its models have. No shape of a
--- configuration is asked for by name. Typical times, not the best: a step runs its operators once.
local error_module = require "ett.base.error"
local folders = require "ett.base.folder"

local validate_campaign = {}

local function log(from, to, multiple) return { from = from, to = to, scale = "log", multiple = multiple or 1 } end
local function below(most, count) return function(s) return count(s) <= most end end
local function product(s) return 2.0 * s.tokens * s.in_features * s.out_features end

--- On processors.
---@param scale number of the number of shapes, and below 1 of the visits of each
---@param cold_bytes integer through which the operands rotate
function validate_campaign.cpu(scale, cold_bytes)
  local function n(count) return math.max(8, math.floor(count * scale)) end
  local tokens = log(64, 512, 16)
  local rows = { tokens = tokens, hidden = log(32, 512, 16) }
  local list = {
    { operator = "linear_qkv", design = "halton", count = n(160), where = below(5e8, product),
      shapes = { tokens = tokens, in_features = log(32, 2048, 16), out_features = log(48, 2048, 16) } },
    { operator = "layer_norm", design = "halton", count = n(32), shapes = rows },
    { operator = "residual_add", design = "halton", count = n(32), shapes = rows },
    { operator = "gelu", design = "halton", count = n(32), shapes = { tokens = tokens, width = log(128, 2048, 16) } },
    { operator = "rope", design = "halton", count = n(40), shapes = { batch = { 1, 2, 4 }, seq = log(64, 256, 16),
      heads = { 1, 2, 4, 8 }, kv_heads = 1, head_dim = { 16, 32, 64 }, rotary_dim = 1 },
      with = function(s) s.kv_heads, s.rotary_dim = s.heads, s.head_dim end,
      where = below(1024, function(s) return s.batch * s.seq end) },
    { operator = "flash_attention", design = "halton", count = n(60), shapes = { batch = { 1, 2, 4 },
      heads = { 1, 2, 4, 6, 8 }, kv_heads = 1, seq_q = log(48, 256, 16), seq_k = 1, head_dim = { 16, 32, 64 },
      causal = 1 }, with = function(s) s.kv_heads, s.seq_k = s.heads, s.seq_q end,
      where = below(1024, function(s) return s.batch * s.seq_q end) },
    { operator = "embedding", design = "halton", count = n(32), shapes = { tokens = tokens, vocab = log(128, 2048, 64),
      hidden = log(32, 512, 16) } },
    { operator = "cross_entropy", design = "halton", count = n(32), shapes = { tokens = tokens,
      vocab = log(128, 2048, 64) } },
    { operator = "optimizer", design = "halton", count = n(24), shapes = { params = log(40000, 12000000) } },
  }
  local passes = math.max(2, math.floor(5 * math.min(1, scale) + 0.5))
  return { name = "validate", seed = 11, budget_seconds = 0.006 * passes, target = 1e-9, samples = list,
    passes = passes, block = 256, interleave = true,
    statistic = "median", together = true, cold_bytes = cold_bytes }
end

--- Least and greatest of what `of` says of each configuration (may be several numbers), with a margin.
local function range(sizes, multiple, of)
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

--- Distinct values of what `of` says of each configuration, sorted.
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

--- On a GPU: the ranges are those of the configurations that will be trained.
---@param sizes integer[][] as in ett.validate
---@param scale number of the number of shapes
function validate_campaign.cuda(sizes, scale, precision)
  local function n(count) return math.max(8, math.floor(count * scale)) end
  local tokens, most_tokens = range(sizes, 16, function(c) return c.tokens end)
  local hidden = range(sizes, 16, function(c) return c.hidden end)
  local vocab = range(sizes, 16, function(c) return c.vocab end)
  local width = range(sizes, 16, function(c) return 4 * c.hidden end)
  local _, most_rows = range(sizes, 1, function(c) return c.tokens * c.hidden end)
  local _, most_wide = range(sizes, 1, function(c) return 4 * c.tokens * c.hidden end)
  local _, most_logits = range(sizes, 1, function(c) return c.tokens * c.vocab end)
  local _, most_product = range(sizes, 1, function(c)
    return 8.0 * c.tokens * c.hidden * c.hidden, 2.0 * c.tokens * c.hidden * c.vocab
  end)
  -- A layer's gradients are added as a residual of that many times its parameters is (ett.validate.kernels_cuda).
  local times = precision == "fp32" and 1 or 5 / 3
  local added = range(sizes, 16, function(c) return c.tokens, 12 * times * c.hidden, times * c.vocab end)
  local _, most_added = range(sizes, 1, function(c)
    return c.tokens * c.hidden, 12 * times * c.hidden * c.hidden, times * c.vocab * c.hidden
  end)
  local parameters = range(sizes, 1, function(c) return (12 * c.layers * c.hidden + 2 * c.vocab) * c.hidden end)
  local list = {
    { operator = "linear_qkv", design = "halton", count = n(160), where = below(most_product, product),
      shapes = { tokens = tokens, in_features = range(sizes, 16, function(c) return c.hidden, 4 * c.hidden end),
        out_features = range(sizes, 16, function(c) return c.hidden, 4 * c.hidden, c.vocab end) } },
    { operator = "layer_norm", design = "halton", count = n(40), shapes = { tokens = tokens, hidden = hidden },
      where = below(most_rows, function(s) return s.tokens * s.hidden end) },
    { operator = "residual_add", design = "halton", count = n(40), shapes = { tokens = added, hidden = hidden },
      where = below(most_added, function(s) return s.tokens * s.hidden end) },
    { operator = "gelu", design = "halton", count = n(40), shapes = { tokens = tokens, width = width },
      where = below(most_wide, function(s) return s.tokens * s.width end) },
    { operator = "embedding", design = "halton", count = n(40), shapes = { tokens = tokens, vocab = vocab,
      hidden = hidden } },
    { operator = "cross_entropy", design = "halton", count = n(40), shapes = { tokens = tokens, vocab = vocab },
      where = below(most_logits, function(s) return s.tokens * s.vocab end) },
    { operator = "optimizer", design = "halton", count = n(32), shapes = { params = parameters } },
  }
  local batch, heads = values(sizes, function(c) return c[5] end), values(sizes, function(c) return c[3] end)
  local dims = values(sizes, function(c) return c[2] // c[3] end)
  local seq = range(sizes, 16, function(c) return c.seq end)
  local function fits(s) return s.batch * (s.seq or s.seq_q) <= most_tokens
    and s.batch * (s.seq or s.seq_q) * s.heads * s.head_dim <= most_rows end
  list[#list + 1] = { operator = "rope", design = "halton", count = n(48), where = fits, shapes = { batch = batch,
    seq = seq, heads = heads, kv_heads = 1, head_dim = dims, rotary_dim = 1 },
    with = function(s) s.kv_heads, s.rotary_dim = s.heads, s.head_dim end }
  list[#list + 1] = { operator = "flash_attention", design = "halton", count = n(80), where = fits,
    shapes = { batch = batch, heads = heads, kv_heads = 1, seq_q = seq, seq_k = 1, head_dim = dims, causal = 1 },
    with = function(s) s.kv_heads, s.seq_k = s.heads, s.seq_q end }
  return { name = "validate", backend = "cuda", precision = precision, seed = 11, budget_seconds = 0.02,
    samples = list, statistic = "median" }
end

--- A value of a campaign's arguments as Lua writes it.
local function literal(value)
  if math.type(value) == "integer" then return tostring(value) end
  if type(value) == "number" then return ("%.17g"):format(value) end
  if type(value) ~= "table" then return ("%q"):format(value) end
  local words = {}
  for i, item in ipairs(value) do words[i] = literal(item) end
  return "{ " .. table.concat(words, ", ") .. " }"
end

--- A campaign as a file: ranks need one, and its text tells whether tables were begun by another.
---@param back_end string "cpu" or "cuda"
---@param ... any arguments of the campaign of that name
---@return string path
function validate_campaign.write(path, back_end, ...)
  local words = { ... }
  for i, word in ipairs(words) do words[i] = literal(word) end
  return folders.write(path, ("return require(\"ett.validate.campaign\").%s(%s)\n"):format(back_end,
    table.concat(words, ", ")))
end

--- Measures a campaign's file in this process, or on this rank; raises where an operator computes something else, or
--- nothing of it could be measured.
---@param where string the device in words
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
