#ifndef PIPESTAGE_CLIENT_UP_STOP_SIGNALS_H_
#define PIPESTAGE_CLIENT_UP_STOP_SIGNALS_H_

namespace pipestage {

// Turns SIGINT, SIGTERM and SIGHUP into bytes that can be polled for, from now
// until the process ends; SIGPIPE is ignored. Call once, in main's thread.
// Returns a descriptor with one byte to read for each signal that came, or -1
// (errno).
int InstallStopSignals();

}  // namespace pipestage

#endif  // PIPESTAGE_CLIENT_UP_STOP_SIGNALS_H_
