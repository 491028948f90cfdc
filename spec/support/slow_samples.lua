--- A model, and a profile whose samples of gelu seem to be in the wrong unit: each estimate gets a warning.
local merged = require "ett.base.merged"
local operator = require "ett.operator"

local slow_samples = { cluster = "perlmutter", warning = "the samples of gelu (forward) give " }

function slow_samples.model(hyper)
  return require("ett.model").new("gpt", merged({ layers = 1, hidden = 4096, heads = 32, vocab = 32000 }, hyper))
end

function slow_samples.profile()
  local own = { operator = function(_, name, shape, dtype, pass)
    local op = operator.get(name)
    local seconds = op.flops(shape, pass) / 1e14 + op.bytes(shape, dtype, pass) / 1e12
    if op.name == "gelu" then seconds = 1000 * seconds end
    return { seconds = seconds, low_seconds = seconds, high_seconds = seconds, provenance = "interpolated",
      detail = "spec" }
  end }
  return require("ett.profile.of_cluster").open(require("ett.profile.cluster").get(slow_samples.cluster), own)
end

return slow_samples
