--- Zero bubble under a memory limit of twice 1F1B's: each stage runs what is ready, backwards first, then forwards
--- while fewer than 2 pp are kept, and weight gradients in between. As zb_h2 it gains with `late_validation=true`.
local schedule = { name = "zb_2p", chunks = 1, exact_chunks = true,
  summary = "zero bubble by list scheduling with twice the activations of 1F1B (ZB-2p)",
  source = "Qi et al. 2023, section 3 (arXiv 2401.10241), with units of equal length" }

--- Activations of that many forwards are kept at most.
function schedule.activations(_, p) return 2 * p.pp end

--- The order of all stages: what they run when every unit takes one unit of time.
local function simulate(p)
  local m, orders, count = p.micro_batches, {}, {}
  for stage = 1, p.pp do orders[stage], count[stage] = {}, { F = 0, B = 0, W = 0 } end
  local left = 3 * m * p.pp
  while left > 0 do
    local run = {}
    for stage = 1, p.pp do
      local c, ahead, behind = count[stage], count[stage - 1], count[stage + 1]
      local backward = c.B < m and c.B < (behind and behind.B or c.F) and c.B < c.F
      local forward = c.F < m and (not ahead or c.F < ahead.F) and c.F - c.W < 2 * p.pp
      -- A forward that no backward waits for yields to weight gradients, once the pipeline is full.
      local early = c.F - c.B < 2 * (p.pp - stage) + 1
      if backward then
        run[stage] = "B"
      elseif forward and (early or c.W == c.B) then
        run[stage] = "F"
      elseif c.W < c.B then
        run[stage] = "W"
      end
    end
    for stage, kind in pairs(run) do
      local c = count[stage]
      c[kind] = c[kind] + 1
      left = left - 1
      table.insert(orders[stage], { kind, c[kind] })
    end
  end
  return orders
end

local known = {}

--- Units of one stage, in order.
---@param stage integer 1 is the first
---@param p table a plan: pp, micro_batches
function schedule.order(stage, p)
  local key = ("%d %d"):format(p.pp, p.micro_batches)
  if known.key ~= key then known = { key = key, orders = simulate(p) } end
  return known.orders[stage]
end

return schedule
