-- Made by `ett calibrate --kernels`; see lua/ett/profile/kernels/README.md. Not written by hand.
return {
  format = "ett kernel 2", kernel = "attention_training", device = "gb300",
  source = "NVIDIA/cudnn-frontend@3929da2, benchmark/sdpa_benchmark_training (NVIDIA)", licence = "MIT",
  fitted = "2026-11-30",
  laws = {
    ["bf16 backward 128 128"] = { 1.6323, 534.78 },
    ["bf16 backward 192 128"] = { 1.7681, 679.98 },
    ["bf16 backward 64 64"] = { 1.8745, 1358.7 },
    ["bf16 forward 128 128"] = { 1.2699, 192.24 },
    ["bf16 forward 192 128"] = { 1.1689, 625.8 },
    ["bf16 forward 256 256"] = { 1.1627, 85.867 },
    ["bf16 forward 64 64"] = { 1.8756, 1616.9 },
    ["fp8 backward 128 128"] = { 2.0637, 2744.3 },
    ["fp8 backward 192 128"] = { 1.8336, 1260 },
    ["fp8 backward 64 64"] = { 4.0726, 2533 },
    ["fp8 forward 128 128"] = { 1.5169, 617.25 },
    ["fp8 forward 192 128"] = { 1.391, 666.91 },
    ["fp8 forward 64 64"] = { 2.5133, 2696.4 },
  },
}
-- hash 3c3062a9c8a634d929371c4335695f32
