--- Hockney model of the collectives: bandwidth, 1 / beta.
return require("ett.trace.hockney").metric {
  name = "hockney_inverse_beta_Bps", field = "inverse_beta_Bps", unit = "bytes/s", what = "bandwidth, 1 / beta",
}
