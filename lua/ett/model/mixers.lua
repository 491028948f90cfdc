--- Sequence mixers other than softmax attention, as entries of a layer: Mamba, Mamba-2, the gated delta net.
local mixer = require "ett.operator.mixer"
local shapes = require "ett.operator.shapes"

local mixers = {}

--- A sum over tensor ranks of Mamba's B, C and compressed time step: values in forward, gradients in backward.
local function sum_over_ranks(pass, with)
  return { collective = "all_reduce", group = "tp", pass = pass, with = with, elements = function(c)
    local d = mixer.dims(c)
    return (shapes.tokens(c) + 0.0) * (d.rank + 2 * d.state)
  end }
end

--- Norms of the time step, B and C (Jamba).
local function norms(h, with)
  if not h.ssm_norms then return {} end
  local list = {}
  for i, field in ipairs { "rank", "state", "state" } do
    list[i] = { op = h.norm or "rms_norm", with = function(c)
      local own = setmetatable({ mixer = with.mixer }, { __index = c })
      return { hidden = mixer.dims(own)[field], sequence_parallel = false }
    end }
  end
  return list
end

--- Entries of the mixer h.mixer, after the collective `enter` that opens its tensor-parallel region.
function mixers.region(h, enter)
  local with = { mixer = h.mixer }
  local function op(name) return { op = name, with = with } end
  local list = { enter, op "linear_mixer_in", op "mixer_conv" }
  if h.mixer == "mamba" then
    table.move({ op "linear_ssm_x", sum_over_ranks("forward", with), sum_over_ranks("backward", with) }, 1, 3, 4, list)
    local own = norms(h, with)
    table.move(own, 1, #own, #list + 1, list)
    list[#list + 1] = op "linear_ssm_dt"
    list[#list + 1] = op "selective_scan"
  else
    list[#list + 1] = op(h.mixer == "mamba2" and "ssd_scan" or "gated_delta_rule")
    list[#list + 1] = op "gated_norm"
  end
  list[#list + 1] = op "linear_mixer_out"
  return list
end

return mixers
