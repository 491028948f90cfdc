--- Oracles for values of a run: tokens counted expert by expert, and failures simulated one by one.
local expert_spread = require "ett.step.expert_spread"
local goodput = require "ett.step.goodput"

local run_oracles = {}

local function generator(seed)
  local state = seed
  return function()
    state = state * 6364136223846793005 + 1442695040888963407
    return state
  end
end

--- Distinct random experts for every token, with a bias towards some: the chosen experts, token by token.
local function routed(random, tokens, experts, top_k)
  local chosen, bias = {}, 1 + random(4)
  for t = 1, tokens do
    local seen, own = {}, {}
    while #own < top_k do
      local e = random(experts)
      for _ = 2, bias do e = math.min(e, random(experts)) end
      if not seen[e] then
        seen[e] = true
        own[#own + 1] = e
      end
    end
    chosen[t] = own
  end
  return chosen
end

--- Token copies of the busiest rank, and of all ranks. Tokens arrive in order; a full expert drops them. padded: empty
-- slots are computed, too.
local function counted(chosen, experts, ranks, capacity, padded)
  local held, loads, kept, busiest = {}, {}, 0, 0
  for _, own in ipairs(chosen) do
    for _, e in ipairs(own) do
      held[e] = held[e] or 0
      if held[e] < capacity then
        held[e], kept = held[e] + 1, kept + 1
        local rank = e // (experts // ranks)
        loads[rank] = (loads[rank] or 0) + 1
        busiest = math.max(busiest, loads[rank])
      end
    end
  end
  for e = 0, padded and experts - 1 or -1 do
    local rank = e // (experts // ranks)
    for _ = (held[e] or 0) + 1, capacity do loads[rank] = (loads[rank] or 0) + 1 end
    busiest = math.max(busiest, loads[rank])
  end
  return busiest, kept
end

--- Compares random tokens with ett.step.expert_spread: cases with another busiest rank or other dropped copies.
---@return string[] wrong
function run_oracles.experts(count, seed)
  local state, wrong = generator(seed), {}
  local function random(n) return (state() >> 33) % n end
  for case = 1, count do
    local ranks, per_rank = 2 ^ random(5) // 1 | 0, 1 + random(8)
    local experts = ranks * per_rank
    local top_k, tokens = 1 + random(math.min(4, experts)), 8 * (1 + random(30))
    local copies = tokens * top_k
    local chosen, shares = routed(random, tokens, experts, top_k), {}
    for e = 1, experts do shares[e] = 0 end
    for _, own in ipairs(chosen) do for _, e in ipairs(own) do shares[e + 1] = shares[e + 1] + 1 / copies end end
    -- A capacity in whole copies; every third case has none.
    local capacity = random(3) > 0 and 1 + random(copies) or nil
    local padded = capacity and random(2) == 0 or false
    local busiest, kept = counted(chosen, experts, ranks, capacity or copies, padded)
    local load, share = expert_spread.load({ experts = experts, top_k = top_k },
      { ep = ranks, expert_skew = 0, expert_shares = shares, pad_to_capacity = padded,
        capacity_factor = capacity and capacity * experts / copies })
    if math.abs(busiest * ranks / copies - load) > 1e-9 * load or math.abs(kept / copies - share) > 1e-9 then
      wrong[#wrong + 1] = ("case %d: %.12g and %.12g, counted %.12g and %.12g"):format(case, load, share,
        busiest * ranks / copies, kept / copies)
    end
  end
  return wrong
end

--- Share of the time that makes progress, over `segments` of work that end with a checkpoint.
local function simulated(random, segments, work, write, between, restart)
  local function next_failure() return -between * math.log(random()) end
  local clock, failure = 0.0, next_failure()
  for _ = 1, segments do
    while failure < clock + work + write do -- lost: restarts, which may fail again
      clock, failure = failure, failure + next_failure()
      while failure < clock + restart do clock, failure = failure, failure + next_failure() end
      clock = clock + restart
    end
    clock = clock + work + write
  end
  return segments * work / clock
end

--- The largest relative difference between ett.step.goodput and simulations of failures.
function run_oracles.goodput(count, seed)
  local state, worst = generator(seed), 0.0
  local function random() return ((state() >> 11) + 1) / 2.0 ^ 53 end -- above 0 and at most 1
  for _ = 1, count do
    local between = 3600 * (1 + 30 * random())
    local work, write, restart = between * (0.02 + 0.5 * random()), 1 + 120 * random(), 10 + 900 * random()
    local wanted = simulated(random, 40000, work, write, between, restart)
    worst = math.max(worst, math.abs(goodput.share(work, write, between, restart) / wanted - 1))
  end
  return worst
end

return run_oracles
