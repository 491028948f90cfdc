-- Made by `ett calibrate --kernels`; see lua/ett/profile/kernels/README.md. Not written by hand.
return {
  format = "ett kernel 2", kernel = "attention_training", device = "mi300x",
  source = "ROCm/aiter@0403bcd, op_tests/cpp/mha/README.md (AMD)", licence = "MIT",
  fitted = "2026-11-30",
  laws = {
    ["bf16 backward 128 128"] = { 2.4848, 851.78 },
    ["bf16 forward 128 128"] = { 2.1656, 918.16 },
  },
}
-- hash 0c68f9c18b5783f56da3b60dc4a29ac0
