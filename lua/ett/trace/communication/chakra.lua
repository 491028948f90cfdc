--- Messages in Chakra execution traces; the reader names them by kind.
return {
  summary = "communication nodes of Chakra execution traces",
  source = "runtime/trace/read/chakra.c",
  patterns = { "^chakra::" },
}
