-- Made by `ett calibrate --kernels`; see lua/ett/profile/kernels/README.md. Not written by hand.
return {
  format = "ett kernel 2", kernel = "attention_training", device = "gb300",
  source = "NVIDIA/cudnn-frontend@3929da2, benchmark/sdpa_benchmark_training (NVIDIA)", licence = "MIT",
  fitted = "2026-11-29",
  laws = {
    ["bf16 backward 128 128"] = { 1.6324, 544.07 },
    ["bf16 backward 192 128"] = { 1.7686, 681.56 },
    ["bf16 backward 64 64"] = { 1.8659, 1363.7 },
    ["bf16 forward 128 128"] = { 1.2699, 196.46 },
    ["bf16 forward 192 128"] = { 1.1685, 631.84 },
    ["bf16 forward 256 256"] = { 1.1627, 85.867 },
    ["bf16 forward 64 64"] = { 1.8537, 1637.8 },
    ["fp8 backward 128 128"] = { 2.0593, 2804.2 },
    ["fp8 backward 192 128"] = { 1.8337, 1267.6 },
    ["fp8 backward 64 64"] = { 4.0726, 2533 },
    ["fp8 forward 128 128"] = { 1.5144, 637.47 },
    ["fp8 forward 192 128"] = { 1.3908, 672.13 },
    ["fp8 forward 64 64"] = { 2.5225, 2704.5 },
  },
}
-- hash c03fe8ef016422a0ce0cae17752a7cb7
