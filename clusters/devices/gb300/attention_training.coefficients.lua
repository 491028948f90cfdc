-- Made by `ett calibrate --kernels`; see lua/ett/profile/kernels/README.md. Not written by hand.
return {
  format = "ett kernel 2", kernel = "attention_training", device = "gb300",
  source = "NVIDIA/cudnn-frontend@3929da2, benchmark/sdpa_benchmark_training (NVIDIA)", licence = "MIT",
  fitted = "2026-11-28",
  laws = {
    ["bf16 backward 128 128"] = { 1.6458, 670.48 },
    ["bf16 backward 192 128"] = { 1.7663, 817.05 },
    ["bf16 backward 64 64"] = { 1.6458, 1396.3 },
    ["bf16 forward 128 128"] = { 1.2797, 286.16 },
    ["bf16 forward 192 128"] = { 1.1662, 731.3 },
    ["bf16 forward 256 256"] = { 1.1624, 446.87 },
    ["bf16 forward 64 64"] = { 1.2797, 1686.2 },
    ["fp8 backward 128 128"] = { 2.0492, 3078.8 },
    ["fp8 backward 192 128"] = { 1.8287, 1435 },
    ["fp8 forward 128 128"] = { 1.512, 779.98 },
    ["fp8 forward 192 128"] = { 1.3883, 785.91 },
  },
}
-- hash ee5678d371fb6748ca34518bf1c332b6
