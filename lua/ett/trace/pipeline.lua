--- Per-micro-batch timings of a pipeline: pp_rank_N.json files beside a config.json.
--
-- Each file maps an iteration to { total, fwd_start[], fwd_end[], bwd_start[], bwd_end[] }
-- (and wgrad_start / wgrad_end when weight gradients are a unit of their own), all in
-- milliseconds from the start of the iteration on that rank.
local pipeline = {}

local function read_json(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("a")
  file:close()
  local ok, value = pcall(require("ett.json").decode, text)
  return ok and type(value) == "table" and value or nil
end

local function sorted_numbers(t)
  local list = {}
  for key in pairs(t) do
    local number = math.tointeger(tonumber(key))
    if number then list[#list + 1] = number end
  end
  table.sort(list)
  return list
end

local function unit_times(record)
  local busy, first, last, counts = 0.0, math.huge, -math.huge, {}
  for _, unit in ipairs{ "fwd", "bwd", "wgrad" } do
    local from, to = record[unit .. "_start"], record[unit .. "_end"]
    if type(from) == "table" and type(to) == "table" then
      counts[unit] = math.min(#from, #to)
      for i = 1, counts[unit] do
        busy = busy + (to[i] - from[i])
        first, last = math.min(first, from[i]), math.max(last, to[i])
      end
    end
  end
  return busy, last - first, counts
end

--- Timings of one rank in one iteration.
---@return table { total_ms, busy_ms, window_ms, bubble_vs_total, bubble_vs_window, n_fwd, n_bwd }
function pipeline.iteration(record)
  local busy, window, counts = unit_times(record)
  return {
    total_ms = record.total, busy_ms = busy, window_ms = window,
    bubble_vs_total = 1 - busy / record.total, bubble_vs_window = 1 - busy / window,
    n_fwd = counts.fwd or 0, n_bwd = counts.bwd or 0,
  }
end

--- Reads a folder of timings, or nil when it is none.
---@return table? { ranks = { {rank=, iterations = {number…}, [number] = timings} }, config = table }
function pipeline.read(path)
  local lfs = require "lfs"
  if lfs.attributes(path, "mode") ~= "directory" then return nil end
  local ranks = {}
  for entry in lfs.dir(path) do
    local rank = entry:match("^pp_rank_(%d+)%.json$")
    if rank then
      local data = read_json(path .. "/" .. entry)
      if data then
        local each = { rank = math.tointeger(tonumber(rank)), iterations = sorted_numbers(data), timings = {} }
        for _, number in ipairs(each.iterations) do
          local record = data[tostring(number)]
          if type(record) ~= "table" or type(record.total) ~= "number" or type(record.fwd_start) ~= "table" then
            return nil
          end
          each.timings[number] = pipeline.iteration(record)
        end
        ranks[#ranks + 1] = each
      end
    end
  end
  if #ranks == 0 then return nil end
  table.sort(ranks, function(a, b) return a.rank < b.rank end)
  return { ranks = ranks, config = read_json(path .. "/config.json") or {} }
end

return pipeline
