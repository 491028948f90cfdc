--- HCCL of Ascend, Gaudi and MTIA back ends.
return {
  summary = "HCCL kernels",
  source = "https://www.hiascend.com/document (hcom_* operator names)",
  patterns = { "[hH][cC][cC][lL]", "^hcom_" },
}
