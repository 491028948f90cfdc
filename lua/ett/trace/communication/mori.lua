--- MORI of AMD: expert dispatch and combine, which are all-to-alls.
return {
  summary = "MORI dispatch and combine kernels",
  source = "https://github.com/ROCm/mori, src/ops/kernels (ep_intranode, ep_internode_v1ll, ep_async_ll)",
  -- Its kernels that copy to a staging buffer, quantise or convert layouts move nothing between ranks.
  patterns = { "EpDispatchIntraNode", "EpDispatchInterNode", "EpDispatchLowLatencyAsync", "EpCombineIntraNode",
    "EpCombineInterNode", "EpCombineLowLatencyAsync", "EpCombineSyncBarrier", "EpCombineXNodeBarrier" },
  dimension = "ep",
  kinds = { { "EpCombineSyncBarrier", "barrier" }, { "EpCombineXNodeBarrier", "barrier" },
    { "EpDispatch", "all_to_all" }, { "EpCombine", "all_to_all" } },
}
