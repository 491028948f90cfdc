--- Intel oneCCL: its SYCL kernels are named by classes oneccl_*.
return {
  summary = "Intel oneCCL kernels",
  source = "https://github.com/uxlfoundation/oneCCL, src/coll/algorithms/*/sycl (classes oneccl_*)",
  patterns = { "oneccl_" },
  except = { "_counter_pcie" }, -- advances the sequence number before a collective
}
