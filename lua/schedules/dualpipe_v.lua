--- DeepSeek-V3's schedule folded to half the stages: V-shaped placement of two slices per stage, with DualPipe's pairs.
local paired_order = require "ett.plan.paired_order"

local schedule = { name = "dualpipe_v", chunks = 2, exact_chunks = true, pairs = true,
  summary = "V-shaped placement, forward and backward in pairs: DualPipe on half the stages",
  source = "github.com/deepseek-ai/DualPipe, dualpipev.py; order as PyTorch's ScheduleDualPipeV" }

function schedule.slice(stage, chunk, p) return chunk == 1 and stage or 2 * p.pp + 1 - stage end

function schedule.activations(_, p) return 2 * p.pp + 1 end

function schedule.refuse(p)
  if p.micro_batches >= 2 * p.pp then return nil end
  return ("needs micro_batches of at least 2 pp = %d, got %d"):format(2 * p.pp, p.micro_batches)
end

function schedule.order(stage, p)
  return paired_order { place = stage, behind = p.pp - stage, near = 1, micro_batches = p.micro_batches,
    after = { 0, 0 } }
end

return schedule
