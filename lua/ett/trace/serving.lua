--- Prefill and decode steps of a serving engine, from its host ranges.
--
-- vLLM writes execute_context_C(T)_generation_G(S): C requests in prefill with T tokens, G in
-- decode with S. Other engines name their ranges prefill / decode. A step ends with the last kernel
-- it launched, or with its range when no launch is recorded.
local serving = {}

--- Requests in a range's name: {prefill = requests, prefill_tokens =, decode = requests}, or nil.
function serving.parse(name)
  local c, t, g = name:match("execute_context_(%d+)%(([^%)]*)%)_generation_(%d+)%(")
  if c then
    return { prefill = tonumber(c), prefill_tokens = tonumber(t:match("^%d+") or 0), decode = tonumber(g) }
  end
  local lower = name:lower()
  if lower:find("^prefill") or lower:find("[%W_]prefill") then return { prefill = 1, decode = 0 } end
  if lower:find("^decode%f[^%a]") or lower:find("[%W_]decode[%W_]") or lower:find("[%W_]decode$") then
    return { prefill = 0, decode = 1 }
  end
  return nil
end

--- Steps of every process in order of start: { {from=, to=, prefill=, decode=} } by process index.
function serving.steps(view)
  return view:cached("serving_steps", function()
    local ranges = view:named_rows("serving", { "annotation" },
      function(name) return serving.parse(name) ~= nil end):sort("ts")
    local out, any = {}, false
    for _, process in ipairs(view:processes()) do
      local mine = ranges:where{ file = process.files }:sort("ts")
      local list, by_row = {}, {}
      for i = 1, #mine do
        local step = serving.parse(mine:get(i, "name"))
        step.from, step.to = mine:get(i, "ts"), mine:get(i, "end")
        step.row = mine:get(i, "row")
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
      view:missing("needs the engine's ranges (execute_context_…_generation_…, prefill, decode) on the host; "
        .. "the trace has none")
    end
    return out
  end)
end

return serving
