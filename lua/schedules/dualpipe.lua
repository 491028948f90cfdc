--- DeepSeek-V3's schedule: micro-batches enter at both ends of the pipeline; a stage overlaps the forward of one with
--- the backward of another.
local paired_order = require "ett.plan.paired_order"

local schedule = { name = "dualpipe", chunks = 1, exact_chunks = true, ways = 2, pairs = true,
  summary = "both ways at once, forward and backward in pairs, weights held twice (DeepSeek-V3)",
  source = "DeepSeek-AI 2024, section 3.2.1 (arXiv 2412.19437); order as github.com/deepseek-ai/DualPipe" }

function schedule.slice(stage, chunk, p) return chunk == 1 and stage or p.pp + 1 - stage end

function schedule.activations(_, p) return p.pp + 1 end

function schedule.refuse(p)
  if p.pp % 2 > 0 then return ("needs an even pp, got %d"):format(p.pp) end
  if p.micro_batches % 2 > 0 then return ("needs an even number of micro_batches, got %d"):format(p.micro_batches) end
  if p.micro_batches >= 2 * p.pp then return nil end
  return ("needs micro_batches of at least 2 pp = %d, got %d"):format(2 * p.pp, p.micro_batches)
end

function schedule.order(stage, p)
  local place, each = math.min(stage, p.pp + 1 - stage), p.micro_batches // 2 -- half of the micro-batches per direction
  return paired_order { place = place, behind = p.pp // 2 - place, near = stage > p.pp // 2 and 2 or 1,
    micro_batches = each, after = { 0, each } }
end

return schedule
