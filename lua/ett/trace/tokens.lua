--- Tokens estimated from the FLOPs a trace states and the model's parameters.
--
-- FLOPs per token: 6 x parameters when training, 2 x when only running forward (Kaplan et al.,
-- 2020, section 2.1), or what --flops-per-token says. Nothing is assumed when the parameters
-- are not given.
local stats = require "ett.trace.stats"
local totals = require "ett.trace.totals"

local tokens = {}

tokens.args = totals.args

--- FLOPs per token: value, how.
function tokens.flops_per_token(view, options)
  if options.flops_per_token then return options.flops_per_token, "given" end
  local card = view:card()
  local params = options.model_params or tonumber(card.num_params)
  if not params then view:missing("needs --model-params (or num_params in the card, or --flops-per-token)") end
  local inference = card.phase == "inference" or card.phase == "serving" or options.phase == "inference"
  return (inference and 2.0 or 6.0) * params, inference and "2 x parameters (inference)" or "6 x parameters (training)"
end

--- {tokens=, wall_s=, flops=, flops_per_token=, how=} over all cores.
function tokens.estimate(view, options)
  local per_token, how = tokens.flops_per_token(view, options)
  local flops, walls, any = 0.0, {}, false
  for i, lane in ipairs(view:lanes()) do
    local each = lane:model_flops()
    if each then flops, any = flops + each, true end
    walls[i] = view:s(lane:span_ticks())
  end
  if not any then view:missing("needs the argument model_flops on device rows; no row has it") end
  return { tokens = flops / per_token, wall_s = stats.mean(walls), flops = flops, flops_per_token = per_token,
    how = how }
end

return tokens
