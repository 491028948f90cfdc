-- Made by `ett calibrate --kernels`; see lua/ett/profile/kernels/README.md. Not written by hand.
return {
  format = "ett kernel 2", kernel = "attention_training", device = "h200_sxm",
  source = "NVIDIA/cudnn-frontend@3929da2, benchmark/sdpa_benchmark_training (NVIDIA)", licence = "MIT",
  fitted = "2026-11-29",
  laws = {
    ["bf16 backward 128 128"] = { 1.5832, 775.22 },
    ["bf16 backward 192 128"] = { 2.0845, 748.58 },
    ["bf16 backward 64 64"] = { 1.6956, 1564.8 },
    ["bf16 forward 128 128"] = { 1.4002, 331.41 },
    ["bf16 forward 192 128"] = { 1.4054, 507.22 },
    ["bf16 forward 64 64"] = { 1.6812, 1119.7 },
    ["fp8 backward 128 128"] = { 2.8965, 1683.4, 1.7072 },
    ["fp8 forward 128 128"] = { 1.8271, 908.36 },
  },
}
-- hash 56cfc233143004050824df762e1e6009
