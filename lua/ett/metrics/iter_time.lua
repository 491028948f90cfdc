--- Wall-clock time of an iteration.
local stats = require "ett.trace.stats"

return {
  name = "iter_time",
  summary = "mean, minimum, maximum and standard deviation of the iteration time",
  definition = [[One duration for each ProfilerStep#N of the host track: the longest of all ranks, since the
slowest rank ends the step. std is the sample deviation (n - 1), 0 for one step.]],
  needs = "ProfilerStep# markers on the host track",
  units = { avg_iter_time_ms = "ms", min_iter_time_ms = "ms", max_iter_time_ms = "ms", std_iter_time_ms = "ms" },
  differs = "the public tool reads one rank's file, the first that the file system lists",
  compute = function(view)
    view:events_needed()
    local list = view:iterations()
    if #list == 0 then view:missing("needs %s", view:lacking_iterations()) end
    local times, numbers = {}, {}
    for i, each in ipairs(list) do times[i], numbers[i] = view:ms(each.ticks), each.number end
    local sorted = stats.sorted(times)
    return {
      avg_iter_time_ms = stats.mean(times), min_iter_time_ms = sorted[1], max_iter_time_ms = sorted[#sorted],
      std_iter_time_ms = stats.deviation(times), num_iterations = #times, iter_times_ms = times, steps = numbers,
    }
  end,
}
