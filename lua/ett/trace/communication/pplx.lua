--- Kernels of Perplexity for expert dispatch and combine, which are all-to-alls.
return {
  summary = "pplx-garden dispatch and combine kernels",
  source = "https://github.com/perplexityai/pplx-garden, p2p-all-to-all/a2a-kernels/src/a2a",
  patterns = { "a2a_dispatch_send_kernel", "a2a_dispatch_recv_kernel", "a2a_combine_send_kernel",
    "a2a_combine_recv_kernel" },
  dimension = "ep",
  kinds = { { "a2a_", "all_to_all" } },
}
