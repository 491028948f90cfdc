--- The interleaved schedule with split backward: weight gradients fill the cool-down phase.
local schedule = { name = "interleaved_zb",
  summary = "interleaved 1F1B with weight gradients in the cool-down (zero bubble)",
  source = "Qi et al. 2023 (arXiv 2401.10241); order as PyTorch's ScheduleInterleavedZeroBubble" }

--- Number of forwards before the first backward.
local function warm_up(stage, p) return math.min(p.micro_batches * p.vp, p.pp - stage + (p.vp - 1) * p.pp) end

function schedule.activations(stage, p) return math.min(warm_up(stage, p) + stage, p.micro_batches * p.vp) end

function schedule.refuse(p)
  if p.micro_batches % p.pp == 0 then return nil end
  return ("needs micro_batches to be a multiple of pp = %d, got %d"):format(p.pp, p.micro_batches)
end

--- A group of pp micro-batches passes through one chunk after the other.
function schedule.order(stage, p)
  local group, total = p.pp * p.vp, p.micro_batches * p.vp
  local function unit(kind, n) -- the n-th of its kind, from 0
    local chunk = n % group // p.pp
    if kind ~= "F" then chunk = p.vp - 1 - chunk end
    return { kind, n // group * p.pp + n % p.pp + 1, chunk + 1 }
  end
  local units, warm, weight = {}, warm_up(stage, p), 0
  for n = 0, warm - 1 do units[#units + 1] = unit("F", n) end
  for n = 0, total - 1 do
    if warm + n < total then units[#units + 1] = unit("F", warm + n) end
    units[#units + 1] = unit("B", n)
    if n - weight >= stage - 1 then -- stage s delays s - 1 weight gradients to the end
      units[#units + 1] = unit("W", weight)
      weight = weight + 1
    end
  end
  for n = weight, total - 1 do units[#units + 1] = unit("W", n) end
  return units
end

return schedule
