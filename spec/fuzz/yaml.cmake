# The reader makes Lua tables.
set(ETT_FUZZ_yaml_LIBRARIES PkgConfig::LUA)
