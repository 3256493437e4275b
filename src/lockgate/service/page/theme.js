// Runs before anything is drawn, so that a page kept dark never flashes white.
{
  const theme = localStorage.getItem("lockgate-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
