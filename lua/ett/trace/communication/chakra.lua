--- Messages in Chakra execution traces; the reader names them by kind.
return {
  name = "chakra",
  summary = "communication nodes of Chakra execution traces",
  source = "runtime/trace/read/chakra.c",
  patterns = { "^chakra::" },
}
