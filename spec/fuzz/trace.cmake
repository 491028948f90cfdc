# Fuzzers of the trace readers that need a library of their own.
if(TARGET ett_trace_oracle)
  set(ETT_FUZZ_trace_json_DEFINITIONS ETT_TRACE_ORACLE=1)
  set(ETT_FUZZ_trace_json_LIBRARIES ett_trace_oracle stdc++)
endif()
set(ETT_FUZZ_trace_nsys_LIBRARIES ett_nsys_core)
