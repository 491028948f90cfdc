--- Hockney model of the collectives: latency of one step of the collective.
return require("ett.trace.hockney").metric {
  name = "hockney_alpha_s", field = "alpha_s", unit = "s", what = "latency of one step of the collective",
}
