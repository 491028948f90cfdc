--- Tokens that each rank exchanges with experts on other ranks.
local collective = require "ett.trace.collective"
local stats = require "ett.trace.stats"

--- Whether PyTorch wrote only the beginning of a list ("[4, 4, ...]").
local function shortened(text) return type(text) == "string" and text:find("...", 1, true) ~= nil end

--- The numbers of a list; nil if it is empty or shortened.
local function numbers(text)
  if type(text) ~= "string" or shortened(text) then return nil end
  local list = {}
  for word in text:gmatch("%d+") do list[#list + 1] = math.tointeger(tonumber(word)) end
  return #list > 0 and list or nil
end

return {
  name = "token_to_expert_assignment",
  summary = "rows sent to each expert rank by the all-to-alls, and their imbalance",
  definition = [[Of every all-to-all whose split sizes are recorded: rows that the rank sends to each member of
the group (In split size) and receives from each (Out split size), summed. imbalance = greatest / mean of the
rows that the members receive from this rank. Split sizes are rows of the tensor's first dimension: with expert
parallelism, one row is one token for one of its top-k experts. PyTorch records only the first 30 sizes of larger
groups; such calls are left out and counted.]],
  needs = "all-to-alls with the arguments 'In split size' and 'Out split size'",
  units = { sent = "rows", received = "rows", imbalance = "ratio" },
  args = { "In split size", "Out split size", table.unpack(collective.args) },
  differs = "only planned in the public set; the definition is ett's own",
  compute = function(view)
    local ranks, any, calls, cut = {}, false, 0, 0
    for _, lane in ipairs(view:lanes()) do
      local collectives = lane:collectives()
      local splits = stats.columns(collectives.rows, { "In split size", "Out split size" })
      local sent, received, used = {}, {}, 0
      for i, n in collectives.sequence:iter() do
        local each, text = collectives.sorts[n], splits["In split size"][i]
        local out, into = numbers(text), numbers(splits["Out split size"][i])
        if each.kind == "all_to_all" then calls, cut = calls + 1, cut + (shortened(text) and 1 or 0) end
        if each.kind == "all_to_all" and out then
          used = used + 1
          for m, count in ipairs(out) do sent[m] = (sent[m] or 0) + count end
          for m, count in ipairs(into or {}) do received[m] = (received[m] or 0) + count end
        end
      end
      if used > 0 then
        any = true
        local sorted = stats.sorted(sent)
        ranks[lane.key] = { calls = used, sent = sent, received = received,
          imbalance = stats.ratio(sorted[#sorted], stats.sum(sent) / #sent) }
      end
    end
    if not any then
      view:missing("needs all-to-alls with split sizes; %s", cut > 0
        and ("%d of the %d all-to-alls have only the first sizes of the list"):format(cut, calls) or calls > 0
        and ("none of the %d all-to-alls has a non-empty 'In split size'"):format(calls)
        or "the trace has no all-to-all")
    end
    return { ranks = ranks, calls_with_shortened_lists = cut }
  end,
}
