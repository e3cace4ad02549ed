#ifndef PIPESTAGE_PACKAGE_OPEN_BENEATH_H_
#define PIPESTAGE_PACKAGE_OPEN_BENEATH_H_

#include <string>

namespace pipestage {

// A descriptor to read root/path, which stays beneath `root` whatever links
// there are, or -1 and errno: EXDEV if it would leave `root`. Never waits for a
// FIFO's writer.
int OpenBeneath(const std::string& root, const std::string& path);

// The same without openat2, which kernels before 5.6 and some sandboxes lack. A
// link that is changed between the check and the opening would get by.
int OpenBeneathByName(const std::string& root, const std::string& path);

}  // namespace pipestage

#endif  // PIPESTAGE_PACKAGE_OPEN_BENEATH_H_
