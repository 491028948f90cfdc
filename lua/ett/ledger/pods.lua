--- Training time of a compute budget on pods: the model that the run optimizer searches.
--
-- A budget of C FLOP fixes the model: N = sqrt(C / 120) parameters, 20 N tokens, and L layers of d x 5d matrices. The
-- batch of B tokens grows with (C / 1e25)^(1/6). Variables: pp stages, dp replicas, tp_hidden and tp_residual (splits
-- of the two widths) and the number of microbatches; pp <= L and pp <= microbatches. batch_scale multiplies the batch.
-- A step is one matrix and microbatch. Its time is the maximum of FLOP, memory traffic and network traffic time. An
-- all-reduce of n words over p ranks moves 2 (p - 1) n / p words with reduction in the network (source: the public
-- run_optimizer2 notebook, C = 4e26, pods of 32 H100 with 5e9 B/s, 16 bits, utilisation 0.8).
-- The formulas are arranged for tight interval bounds: the number of devices used appears once, and 1 / used >= 1 /
-- devices.
local ledger = require "ett.ledger"
local max = ledger.max

local pods = { devices = 32, device = "H100" } -- of a pod

pods.parameters = {
  budget_flop = 4e26, devices = 776, bytes = 2, utilization = 0.8, hidden_factor = 5,
  device_flops = pods.devices * 1979e12, device_memory = pods.devices * 3352e9, device_network = 5e9,
  device_dollars_per_hour = 96,
  batch_scale = 1, pp = 1, dp = 1, tp_hidden = 1, tp_residual = 1, microbatches = 1,
}

--- Shape of the model of a budget.
function pods.shape(o)
  local growth = (o.budget_flop / 1e25) ^ (1 / 6)
  local N = ledger.sqrt(o.budget_flop / 120)
  local L = 120 * growth
  local B = 2048 ^ 2 * growth * (o.batch_scale or 1)
  return { N = N, D = 20 * N, L = L, d = ledger.sqrt(N / (2 * o.hidden_factor * L)), B = B }
end

--- Seconds of a batch by phase and resource; days, utilisation, devices used.
function pods.describe(o)
  local s = pods.shape(o)
  local L, d, B, h, n = s.L, s.d, s.B, o.hidden_factor, o.microbatches
  local width = o.tp_hidden * o.tp_residual
  local used = o.pp * o.dp * width
  local share = max(1 / used, 1 / o.devices) -- equal to 1 / used whenever used <= devices
  local layer = h * d * d
  -- All microbatches of one matrix, for all ranks of a stage: seconds x pp on one device.
  local flop = 6 * layer * B * o.bytes / (o.utilization * o.device_flops)
  local words = 2 * d * (h * (o.tp_residual - 1) + (o.tp_hidden - 1)) * B
  local net = words * o.bytes / o.device_network
  local memory = 4 * layer / width * o.bytes / (o.utilization * o.device_memory) -- one microbatch
  local gradient = 2 * (1 - 1 / o.dp) * layer / width * o.bytes
  local g_memory, g_net = gradient / (o.utilization * o.device_memory), gradient / o.device_network
  local here = max(1 / (o.dp * width), o.pp / o.devices) -- one stage's share
  local function phase(f, m, w) return { compute = f, memory = m, network = w, seconds = max(f, max(m, w)) } end
  local rest = (2 * L - o.pp) * share -- (2 L / pp - 1) here
  local again = 1 + (2 * o.pp - 3) / n -- (n - 1 + 2 (pp - 1)) / n
  local r = { shape = s, used = used, phases = {
    boundary = phase(flop * here / n, memory + g_memory, net * here / n + g_net),
    sustained_dp = phase(flop * rest, (2 * L / o.pp - 1) * (n * memory + g_memory),
      net * rest + (2 * L / o.pp - 1) * g_net),
    steady_and_bubble = phase(flop * here * again, memory * (n + 2 * o.pp - 3), net * here * again),
  } }
  r.batch = r.phases.boundary.seconds + r.phases.sustained_dp.seconds + r.phases.steady_and_bubble.seconds
  r.seconds = r.batch * s.D / B
  r.days = r.seconds / 86400
  r.utilization = o.budget_flop * o.bytes / (o.device_flops * used * r.seconds)
  r.dollars = r.seconds / 3600 * used * o.device_dollars_per_hour
  return r
end

return pods
