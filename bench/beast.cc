// Asio and Beast are compiled once, here, for the programs that speak HTTP.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
