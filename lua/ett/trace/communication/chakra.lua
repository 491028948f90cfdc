--- Messages of Chakra execution traces, which the reader names by what they are.
return {
  name = "chakra",
  summary = "communication nodes of Chakra execution traces",
  source = "runtime/trace/read/chakra.c",
  patterns = { "^chakra::" },
}
