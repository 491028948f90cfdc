--- Hockney model of the collectives: time of one byte on the wire.
return require("ett.trace.hockney").metric {
  name = "hockney_beta_s_per_byte", field = "beta_s_per_byte", unit = "s/byte", what = "time of one byte on the wire",
}
