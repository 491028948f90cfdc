--- Two nodes of H100 and two of A100 on one network.
return {
  name = "both", summary = "2x 8 H100 and 2x 8 A100 on HDR200 InfiniBand", source = "example",
  parts = { { cluster = "dgx_h100", nodes = 2 }, { cluster = "dgx_a100", nodes = 2 } },
  links = { inter = { bandwidth_per_gpu = 23e9, bandwidth_per_node = 184e9, source = "HDR200 cards, the slower" } },
}
