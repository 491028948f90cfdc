--- DeepEP: expert dispatch and combine, which are all-to-alls.
return {
  summary = "DeepEP dispatch and combine kernels",
  source = "https://github.com/deepseek-ai/DeepEP, csrc/kernels and csrc/hybrid_ep",
  patterns = { "deep_ep::", "internode::dispatch", "internode::combine", "intranode::dispatch", "intranode::combine",
    "internode_ll::dispatch", "internode_ll::combine", "notify_dispatch", "cached_notify",
    "hybrid_ep::dispatch_kernel", "hybrid_ep::combine_kernel", "hybrid_ep::device_sync_kernel" },
  except = { "get_dispatch_layout" }, -- computes the send counts and moves no data
  dimension = "ep",
  kinds = { { "device_sync", "barrier" }, { "dispatch", "all_to_all" }, { "combine", "all_to_all" },
    { "notify", "all_to_all" } },
}
