--- Pairs of a forward and a backward of different micro-batches: the event engine against a longest
--- path over cells, independent of the engine, and against lower bounds of one stage.
local step_core = require "step_core"
local generator = require("random").shares
local near = require "near"
local raised = require "raised"

--- Cells of each rank: one unit each while a rank warms up and cools down, two in between. The n-th
--- forward takes groups of `stages` micro-batches through chunk after chunk, backwards reversed.
local function cells(p)
  local ranks, all = {}, p.micro_batches * p.chunks
  local function unit(kind, n)
    local within = n % (p.stages * p.chunks)
    local chunk = within // p.stages
    if kind == "B" then chunk = p.chunks - 1 - chunk end
    return { kind = kind, slice = chunk * p.stages, batch = n // (p.stages * p.chunks) * p.stages + within % p.stages }
  end
  if p.chunks == 1 then unit = function(kind, n) return { kind = kind, slice = 0, batch = n } end end
  for rank = 0, p.stages - 1 do
    local warm = math.min(all, 2 * (p.stages - 1 - rank) + (p.chunks - 1) * p.stages + 1)
    local list = {}
    for n = 0, warm - 1 do list[#list + 1] = { unit("F", n) } end
    for n = warm, all - 1 do list[#list + 1] = { unit("F", n), unit("B", n - warm) } end
    for n = all - warm, all - 1 do list[#list + 1] = { unit("B", n) } end
    for _, cell in ipairs(list) do for _, u in ipairs(cell) do u.slice = u.slice + rank + 1 end end
    ranks[rank + 1] = list
  end
  return ranks
end

--- When everything is through, messages that block their sender included.
local function longest_path(p)
  local ranks, where, memo, last = cells(p), {}, {}, p.stages * p.chunks
  for r, list in ipairs(ranks) do
    for k, cell in ipairs(list) do
      for _, u in ipairs(cell) do where[u.kind .. u.slice .. "." .. u.batch] = { r, k } end
    end
  end
  local function send(u)
    if u.kind == "F" then return u.slice < last and p.send_forward[u.slice] or 0 end
    return u.slice > 1 and p.send_backward[u.slice - 1] or 0
  end
  local ends
  --- When the message of one unit of a cell has arrived; with `all`, when the rank is free again.
  --- Receivers that spend a message's time begin to when it is offered.
  local function through(r, k, wanted, all)
    local at = ends(r, k)
    for _, u in ipairs(ranks[r][k]) do
      if not all and u.kind == wanted then return p.blocking_receives and at or at + send(u) end
      at = at + send(u)
    end
    return at
  end
  function ends(r, k)
    local id = r * 100000 + k
    if memo[id] then return memo[id] end
    local cell, start, seconds = ranks[r][k], k > 1 and through(r, k - 1, nil, true) or 0, 0
    for _, u in ipairs(cell) do
      local from
      if u.kind == "F" and u.slice > 1 then from = "F" .. u.slice - 1 .. "." .. u.batch end
      if u.kind == "B" then from = (u.slice < last and "B" .. u.slice + 1 or "F" .. u.slice) .. "." .. u.batch end
      if from then
        local at = where[from]
        local own = u.kind == "B" and u.slice == last
        start = math.max(start, own and ends(at[1], at[2]) or through(at[1], at[2], u.kind))
        if p.blocking_receives and not own then
          seconds = seconds + (u.kind == "F" and p.send_forward[u.slice - 1] or p.send_backward[u.slice])
        end
      end
      seconds = seconds + (u.kind == "F" and p.forward or p.backward)[u.slice]
    end
    if #cell == 2 then
      local a, b = cell[1].slice, cell[2].slice
      seconds = seconds - math.min(p.forward_hidden[a], p.forward_hidden[b])
        - math.min(p.backward_hidden[a], p.backward_hidden[b])
    end
    memo[id] = start + seconds
    return memo[id]
  end
  local makespan = 0
  for r, list in ipairs(ranks) do makespan = math.max(makespan, through(r, #list, nil, true)) end
  return makespan
end

local function random_pipeline(random, name)
  local p = { schedule = name, stages = 1 + math.floor(random() * 5), chunks = 1, blocking_sends = true,
    micro_batches = 1 + math.floor(random() * 12), forward = {}, backward = {}, send_forward = {}, send_backward = {},
    forward_hidden = {}, backward_hidden = {} }
  if name == "interleaved" then
    p.chunks = 1 + math.floor(random() * 3)
    p.micro_batches = p.stages * (1 + math.floor(random() * 4))
  end
  for v = 1, p.stages * p.chunks do
    p.forward[v], p.backward[v] = 0.2 + random(), 0.2 + random()
    local most = math.min(p.forward[v], p.backward[v]) / 2
    p.forward_hidden[v], p.backward_hidden[v] = most * random(), most * random()
    p.send_forward[v], p.send_backward[v] = random() / 5, random() / 5
  end
  return p
end

describe("pairs of micro-batches", function()
  it("run as long as the longest path over their cells", function()
    local random = generator(7)
    for i = 1, 300 do
      local p = random_pipeline(random, i % 2 == 0 and "1f1b" or "interleaved")
      local text = ("%s, %d stages of %d, %d micro-batches"):format(p.schedule, p.stages, p.chunks, p.micro_batches)
      local run = step_core.pipeline(p)
      near(longest_path(p), run.makespan_seconds, text)
      assert.is_true(run.makespan_seconds >= run.lower_seconds - 1e-9, text)
      near(step_core.every_unit(p).makespan_seconds, run.makespan_seconds, text)
      p.blocking_receives = true
      near(longest_path(p), step_core.pipeline(p).makespan_seconds, text .. ", receives block")
    end
  end)

  it("hide in all but the first forward and the last backward of a pipeline of one", function()
    local p = { schedule = "1f1b", stages = 1, micro_batches = 9, forward = { 2 }, backward = { 3 },
      forward_hidden = { 0.5 }, backward_hidden = { 0.75 } }
    near(2 + 8 * (5 - 1.25) + 3, step_core.pipeline(p).makespan_seconds, "nine micro-batches")
    p.micro_batches = 1
    near(5, step_core.pipeline(p).makespan_seconds, "one has no other to pair with")
  end)

  it("never take longer with more overlap", function()
    local random = generator(8)
    for i = 1, 200 do
      local p = random_pipeline(random, i % 2 == 0 and "1f1b" or "interleaved")
      local before = step_core.pipeline(p).makespan_seconds
      for v = 1, #p.forward do
        local room = math.min(p.forward[v], p.backward[v]) - p.backward_hidden[v] - p.forward_hidden[v]
        p.forward_hidden[v] = p.forward_hidden[v] + 0.9 * room
      end
      assert.is_true(step_core.pipeline(p).makespan_seconds <= before + 1e-9)
    end
  end)

  it("start and end together, and hold the micro-batches of the warm-up", function()
    local random = generator(9)
    for i = 1, 60 do
      local p = random_pipeline(random, "1f1b")
      local run, peaks = step_core.links(p), step_core.pipeline(p).peak_in_flight
      for r, units in ipairs(run.units) do
        local warm = math.min(p.micro_batches, 2 * (p.stages - r) + 1)
        assert.equal(warm, peaks[r])
        local hidden = p.forward_hidden[r] + p.backward_hidden[r]
        for k = 1, #units do
          local paired = k > warm and k <= 2 * p.micro_batches - warm
          local alone = (units[k][1] == "F" and p.forward or p.backward)[r]
          near(paired and p.forward[r] + p.backward[r] - hidden or alone, units[k].seconds, "seconds " .. i)
          if paired and units[k][1] == "F" then
            assert.equal(units[k].start_seconds, units[k + 1].start_seconds)
            assert.is_true(units[k][2] ~= units[k + 1][2])
          end
        end
      end
    end
  end)

  it("hold what a walk counts that frees a backward's layers as it stores its forward's", function()
    local random = generator(10)
    for _ = 1, 100 do
      local p = random_pipeline(random, "interleaved")
      local run, peaks = step_core.links(p), step_core.pipeline(p).peak_in_flight
      for r, units in ipairs(run.units) do
        local held, most = 0, 0
        for k, unit in ipairs(units) do
          held = held + (unit[1] == "F" and 1 or -1)
          local pair = units[k + 1] and units[k + 1].start_seconds == unit.start_seconds
          if not pair then most = math.max(most, held) end
        end
        assert.equal(most, peaks[r])
      end
    end
  end)

  it("are refused without all-to-alls, and with more overlap than communication", function()
    local function message(changes)
      local p = { schedule = "1f1b", stages = 2, micro_batches = 4, forward = { 1, 1 }, backward = { 2, 2 },
        forward_hidden = { 0.5, 0.5 }, backward_hidden = { 0.5, 0.5 } }
      for key, value in pairs(changes) do p[key] = value or nil end
      return raised(step_core.pipeline, p)
    end
    assert.matches("paired units need the schedule 1f1b or interleaved", message { schedule = "gpipe" }, 1, true)
    assert.matches("missing field 'backward_hidden'", message { backward_hidden = false }, 1, true)
    assert.matches("'forward_hidden[2]' and 'backward_hidden' must be no longer together than either pass",
      message { forward_hidden = { 0.5, 0.6 } }, 1, true)
  end)
end)
