--- Prefill and decode steps of a serving engine, from its host ranges.
--
-- vLLM writes execute_context_C(T)_generation_G(S): C requests in prefill with T tokens, G in decode with S; newer
-- versions write the tokens of the step before "context". SGLang writes step[MODE bs=REQUESTS toks=TOKENS]. Other
-- engines name their ranges prefill / decode; such a name counts only if the trace has no backward pass, because data
-- loaders decode too. A step ends with its last launched kernel, or with its range if no launch is recorded.
local comm = require "ett.trace.comm"

local serving = {}

--- Words for decoding by other programs than language models.
local other_decoding = { "codec", "image", "jpe?g", "png", "video", "audio", "json", "utf", "token", "base64" }

local sglang_modes = { extend = "prefill", prefill = "prefill", decode = "decode", mixed = "both" }

--- Requests in a range's name: {prefill = requests, prefill_tokens =, decode = requests, exact = whether an engine's
--- own format}, or nil.
function serving.parse(name)
  local c, t, g = name:match("execute_%d*_?context_(%d+)%(([^%)]*)%)_generation_(%d+)%(")
  if c then
    local tokens = t:match("^%d+") or t:match("^sq(%d+)")
    return { prefill = tonumber(c), prefill_tokens = tonumber(tokens or 0), decode = tonumber(g), exact = true }
  end
  local lower = name:lower()
  local mode, requests = lower:match("^step%[(%a+) bs=(%d+)")
  mode = sglang_modes[mode]
  if mode then
    local n = tonumber(requests)
    return { prefill = mode ~= "decode" and n or 0, decode = mode ~= "prefill" and n or 0, exact = true,
      prefill_tokens = mode ~= "decode" and tonumber(lower:match("toks=(%d+)") or 0) or nil }
  end
  if comm.any_found(lower, other_decoding) then return nil end
  if lower:find("^prefill") or lower:find("[%W_]prefill") then return { prefill = 1, decode = 0, exact = false } end
  if lower:find("^decode%f[^%a]") or lower:find("[%W_]decode[%W_]") or lower:find("[%W_]decode$") then
    return { prefill = 0, decode = 1, exact = false }
  end
  return nil
end

--- Steps of every process in order of start: { {from=, to=, prefill=, decode=, recording=} } by process index.
function serving.steps(view)
  return view:cached("serving_steps", function()
    local training = view:training()
    local ranges = view:named_rows("serving", { "annotation" }, function(name)
      local step = serving.parse(name)
      return step ~= nil and (step.exact or not training)
    end):sort("ts")
    local out, any, recordings = {}, false, view:recordings()
    for _, process in ipairs(view:processes()) do
      local mine = ranges:where{ file = process.files }:sort("ts")
      local list, by_row = {}, {}
      for i = 1, #mine do
        local step = serving.parse(mine:get(i, "name"))
        step.from, step.to = mine:get(i, "ts"), mine:get(i, "end")
        step.row, step.recording = mine:get(i, "row"), recordings[mine:get(i, "file")]
        list[i], by_row[step.row] = step, step
        any = true
      end
      if #list > 0 then
        local rows = view:device_rows():where{ file = process.files }
        local home = rows:match(view:launch_calls(), "correlation"):enclosing(mine):columns{ "row" }
        local ends = rows:columns{ "end" }
        for i = 1, #rows do
          local step = home[i] and by_row[home[i]]
          if step then step.to = math.max(step.to, ends[i]) end
        end
      end
      local from, to = view:window(process)
      if from then
        local kept = {}
        for _, step in ipairs(list) do
          if step.from >= from and step.from < to then kept[#kept + 1] = step end
        end
        list = kept
      end
      out[process.index] = list
    end
    if not any then
      view:missing("needs the engine's ranges (execute_context_…_generation_…, step[DECODE bs=…], prefill, decode) "
        .. "on the host; the trace has none%s", training and ", and it is of training" or "")
    end
    return out
  end)
end

return serving
