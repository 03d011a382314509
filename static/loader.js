// All that is sent with a page: the component itself comes from the app's static files, and stays in the browser's store.
export default async function (mounting) {
  try {
    const component = await import(new URL("app/static/[[script]]?v=[[version]]", document.baseURI));
    return component.default(mounting);
  } catch (error) {
    mounting.parentElement.querySelector("[role=group]").textContent = mounting.data[0].texts.failed;
    console.error(error);
  }
}
