--- Checks an operator's outputs: before the first sample, each pass runs once on a small shape, and its outputs are
-- compared with a reference in double precision.
--
-- The sessions of a back end that computes operators have check(op, s, pass) -> comparisons, or nil and the reason:
--   { { name = "tensor 3 'y' of gelu_forward", want = { … }, got = { … } }, …, skipped = "omitted part" or nil }
-- It raises the same errors that fail a shape or end the campaign.
local error_module = require "ett.base.error"
local sample_table = require "ett.samples.table"
local operator = require "ett.operator"
local sample_limit = require "ett.sampling.limit"
local schema = require "ett.base.schema"

local sample_check = {}

--- Largest error due to rounding, relative to the larger of the number and the root mean square of its tensor: fp32
--- sums of a few hundred terms; one or two roundings of bf16 (2^-8) and fp16 (2^-11); fp8 products have exact operands
--- and bf16 results.
sample_check.tolerance = { fp32 = 2e-4, fp16 = 5e-3, bf16 = 4e-2, fp8 = 4e-2 }

-- Small values of dimensions by name: several blocks and warps with partial ends, a few thousand elements.
local reduced = { batch = 2, heads = 4, kv_heads = 2, head_dim = 16, rotary_dim = 16, seq = 12, seq_q = 24, seq_k = 24,
  tokens = 12, rows = 12, hidden = 70, width = 70, cols = 70, vocab = 90, params = 300, experts = 8, top_k = 2 }

--- The shape for the check of an operator: the campaign's shape with large dimensions reduced. An operator with
--- dependent dimensions defines small(s).
function sample_check.small(op, s)
  local small = {}
  for name, value in pairs(s) do
    small[name] = math.type(value) == "integer" and math.min(value, reduced[name] or 24) or value
  end
  if op.small then small = op.small(s) end
  return operator.check_shape(op, small)
end

--- The largest relative error and its index.
function sample_check.worst(want, got)
  local square = 0.0
  for _, v in ipairs(want) do square = square + v * v end
  local scale, worst, at = math.max(math.sqrt(square / math.max(1, #want)), 1e-30), 0.0, 1
  for i, v in ipairs(want) do
    local error_ = math.abs(got[i] - v) / math.max(math.abs(v), scale)
    if error_ ~= error_ then error_ = math.huge end
    if error_ > worst then worst, at = error_, i end
  end
  return worst, at
end

local function shape_text(s)
  local words = {}
  for i, name in ipairs(schema.keys(s)) do words[i] = ("%s=%s"):format(name, tostring(s[name])) end
  return table.concat(words, " ")
end

local function number(value) return ("%.6g"):format(value) end

--- Runs the checks of one operator in a session, once per small shape.
---@return table { text = for the header, failure = sentence or nil }
function sample_check.operator(session, op, s, precision)
  if not session.check then return { text = "no: another program computes the outputs" } end
  local ok, small = sample_limit.call(sample_check.small, op, s)
  if not ok and error_module.from(small).kind == "interrupt" then error(small, 0) end
  if not ok then return { text = "no: no small shape: " .. tostring(error_module.from(small).message) } end
  session.checked = session.checked or {}
  local key = op.name .. " " .. shape_text(small)
  if session.checked[key] then return session.checked[key] end
  local tolerance = sample_check.tolerance[precision] or sample_check.tolerance.bf16
  local verdict, worst, left, done = {}, 0.0, {}, 0
  for _, pass in ipairs(op.passes) do
    local ran, list, why = sample_limit.call(session.check, op, small, pass)
    if not ran then -- the error ends the campaign, or fails this check
      local failure = error_module.from(list)
      if failure.fatal or failure.kind == "lost" or failure.kind == "interrupt" then error(failure, 0) end
      list, why = nil, tostring(failure.message)
    end
    if why or list.skipped then left[#left + 1] = ("%s: %s"):format(pass, why or list.skipped) end
    for _, one in ipairs(list or {}) do
      local error_, at = sample_check.worst(one.want, one.got)
      worst, done = math.max(worst, error_), done + 1
      if error_ > tolerance and not verdict.failure then
        verdict.failure = ("%s %s in %s computes a wrong result: %s, element %d of %d, is %s, must be %s (relative "
          .. "error %.2g, at most %g is rounding) at %s"):format(op.name, pass, precision, one.name, at, #one.want,
          number(one.got[at]), number(one.want[at]), error_, tolerance, shape_text(small))
      end
    end
  end
  local skipped = #left > 0 and table.concat(left, "; ") or nil
  if verdict.failure then
    verdict.text = "wrong: " .. verdict.failure
  elseif done == 0 then
    verdict.text = "no: " .. (skipped or "no output is written")
  else
    verdict.text = ("%s, worst relative error %.1e at %s%s"):format(skipped and "in part" or "yes", worst,
      shape_text(small), skipped and "; not " .. skipped or "")
  end
  session.checked[key] = verdict
  return verdict
end

--- Checks a target's operator before its table is made. All ranks of a shared job check; one wrong rank fails all.
function sample_check.target(session, target, run)
  if target.kind ~= "operator" then return nil end
  if not run.check then return { text = "no: --no-check" } end
  local ok, s = sample_limit.call(target.shape, target.values(1))
  if not ok and error_module.from(s).kind == "interrupt" then error(s, 0) end
  if not ok then return { text = "no: the operator does not take the campaign's first shape" } end
  local verdict = sample_check.operator(session, target.operator, s, run.precision)
  if run.share then
    local rank = run.share.worst(verdict.failure ~= nil)
    if rank and not verdict.failure then
      verdict = { failure = ("rank %d: %s computes a wrong result there"):format(rank, target.name) }
      verdict.text = "wrong: " .. verdict.failure
    elseif rank and rank ~= 0 then
      io.stderr:write(("ett: rank %d: %s\n"):format(run.share.rank(), verdict.failure))
    end
  end
  return verdict
end

--- Marks that no shape of a table may be measured; returns its report.
function sample_check.refuse(journal, held, target, path, failure)
  local line = "wrong: " .. sample_table.one_line(failure)
  if line ~= held.failed.all then error_module.must(journal:append(sample_table.failure("all", line))) end
  journal:close()
  local count = math.max(0, target.total - held.rows)
  return { path = path, name = target.name, measured = 0, failed = count, disturbed = 0, total = count, most = count,
    seconds = 0.0, held = held.rows, refused = failure }
end

--- Appends this run's verdict to a table that has a different one.
function sample_check.note(journal, held, verdict)
  if not verdict or not held.checked or held.checked:match("^%a+") == verdict.text:match("^%a+") then return end
  error_module.must(journal:append("#! checked: " .. sample_table.one_line(verdict.text)))
end

return sample_check
