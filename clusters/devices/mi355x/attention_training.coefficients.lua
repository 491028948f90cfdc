-- Made by `ett calibrate --kernels`; see lua/ett/profile/kernels/README.md. Not written by hand.
return {
  format = "ett kernel 2", kernel = "attention_training", device = "mi355x",
  source = "ROCm/aiter@0403bcd, op_tests/cpp/mha/README.md (AMD)", licence = "MIT",
  fitted = "2026-11-30",
  laws = {
    ["bf16 backward 128 128"] = { 1.9712, 1328.3 },
    ["bf16 forward 128 128"] = { 1.6475, 1197.7 },
  },
}
-- hash 870642763d32ee7dab8ace5af17daf22
