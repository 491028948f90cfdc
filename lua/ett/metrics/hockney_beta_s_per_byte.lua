--- Hockney model of the collectives: time of one byte on the wire.
local collective = require "ett.trace.collective"
local hockney = require "ett.trace.hockney"

return {
  name = "hockney_beta_s_per_byte",
  summary = "time of one byte on the wire, by T = steps alpha + volume beta",
  definition = [[Least absolute relative deviations over the median transfer time of each size; steps and volume
are the ring algorithm's (lua/ett/trace/hockney.lua). Transfer time is first end - last start over the ranks.
The residual, the number of sizes and whether they decide the fit come with it; with one size there is no
answer.]],
  needs = "all-reduces of at least two sizes with known bytes and group size (--n-chips), best on two ranks or more",
  units = { hockney_beta_s_per_byte = "s/byte" },
  args = collective.args,
  options = { "n_chips", "collective", "tolerance_us" },
  differs = "the public tool fits kernel durations, in which waiting for the last rank counts as transfer",
  compute = function(view, options)
    view:events_needed()
    local fit = hockney.fit(view, options)
    local out = {}
    for key, value in pairs(fit) do out[key] = value end
    out.hockney_beta_s_per_byte = fit.beta_s_per_byte
    return out
  end,
}
